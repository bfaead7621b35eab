// Presses of a mouse or a finger: a page that is drawn anew while one lasts loses no click.

/** How long a press is waited for, and how often it is looked at. */
const PRESS_MS = 1000;
const LOOK_MS = 50;
/** How far the pointer may go, in pixels, and it is still a click. */
const NEAR = 6;
const CLICKABLE = "a, button, input, label, select, summary, [role=button], [role=option]";

let pressed = null;

addEventListener("pointerdown", ({ target, clientX, clientY, button }) => {
  pressed = { on: button === 0 ? target.closest?.(CLICKABLE) : null, x: clientX, y: clientY, at: Date.now() };
}, true);

addEventListener("pointerup", ({ target, clientX, clientY }) => {
  const { on, x, y } = pressed ?? {};
  pressed = null;
  if (!on?.isConnected || on.contains(target) || Math.hypot(clientX - x, clientY - y) > NEAR) return;
  // It was moved away under the pointer: the browser clicks neither it nor what is there now.
  on.click();
}, true);

addEventListener("pointercancel", () => { pressed = null; }, true);

/** Waits until nothing is pressed: what is under the pointer stays in its place until then. */
export async function released() {
  while (pressed && Date.now() - pressed.at < PRESS_MS) await new Promise((resolve) => { setTimeout(resolve, LOOK_MS); });
}
