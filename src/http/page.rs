//! Pages of lists that are short enough to be read at once.

use serde::Deserialize;
use utoipa::IntoParams;

use super::cursor::{self, List};
use super::limits::PAGE_MAX;
use super::problem::Problem;
use super::route::plans::page;

/// The requested page.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// Maximum number of entries; 1,000 at most.
    #[param(minimum = 1, maximum = 1000, default = 1000)]
    limit: Option<u32>,
    /// The `next` of the page before.
    cursor: Option<String>,
}

/// The query of a list that is short by its nature, and has no pages: any parameter is refused.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoQuery {}

impl PageQuery {
    /// The name after which this page of a list begins, and its number of entries.
    pub(super) fn place(&self, list: List) -> Result<(String, usize), Problem> {
        let limit = page(self.limit.or(Some(PAGE_MAX as u32)), PAGE_MAX)?;
        let after = self.cursor.as_deref().map(|text| cursor::read(list, text)).transpose()?;
        let after = String::from_utf8_lossy(&after.unwrap_or_default()).into_owned();
        Ok((after, limit))
    }

    /// This page of a list, by unique names, and the cursor of the next one. What is added or removed
    /// between two pages moves nothing else.
    pub(super) fn of<T>(
        &self,
        list: List,
        all: Vec<T>,
        name: impl Fn(&T) -> String,
    ) -> Result<(Vec<T>, Option<String>), Problem> {
        let limit = page(self.limit.or(Some(PAGE_MAX as u32)), PAGE_MAX)?;
        let after = self.cursor.as_deref().map(|text| cursor::read(list, text)).transpose()?;
        let mut named: Vec<(String, T)> = all.into_iter().map(|it| (name(&it), it)).collect();
        named.retain(|(name, _)| after.as_ref().is_none_or(|after| name.as_bytes() > &after[..]));
        named.sort_by(|(a, _), (b, _)| a.cmp(b));
        let has_more = named.len() > limit;
        named.truncate(limit);
        let last = named.last().filter(|_| has_more);
        let next = last.map(|(name, _)| cursor::write(list, name.as_bytes()));
        Ok((named.into_iter().map(|(_, it)| it).collect(), next))
    }
}
