//! A date as text.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the day and the time of day, to the second: `2026-11-26 21:20:29 UTC`. Earlier times are clamped to 1970.
///
/// ```
/// # use std::time::{Duration, UNIX_EPOCH};
/// assert_eq!(rdpmc_report::page::date(UNIX_EPOCH + Duration::from_secs(951_782_400)), "2000-02-29 00:00:00 UTC");
/// ```
pub fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March have their leap day at the end. 400 of them have 146,097 days, and the first one is the year 0.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    // Five months have 153 days.
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next;
    let (hours, minutes, seconds) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{of_month:02} {hours:02}:{minutes:02}:{seconds:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Every day of 800 years follows the one before, by the rules of the calendar.
    #[test]
    #[cfg_attr(miri, ignore = "takes minutes")]
    fn days_follow_each_other() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..292_194_u64 {
            let text = date(UNIX_EPOCH + Duration::from_secs(days * 86_400 + 3_661));
            assert_eq!(text, format!("{year:04}-{month:02}-{day:02} 01:01:01 UTC"));
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 if is_leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
