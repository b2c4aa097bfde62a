//! What came of the policies, as a picture.

use std::path::Path;

use plotters::{
    chart::ChartBuilder,
    drawing::IntoDrawingArea as _,
    element::{Rectangle, Text},
    prelude::{LineSeries, SVGBackend},
    style::{BLACK, Color as _, IntoFont as _, RED, RGBColor, WHITE},
};

use super::{report::short, world::Outcome};
use crate::failure::Failure;

/// What is above it is drawn at the upper edge.
const HIGHEST: f64 = 5.0;
const PANEL: (u32, u32) = (1200, 170);
const GREY: RGBColor = RGBColor(225, 232, 240);

/// Draws the most loaded node's calls per second over the mean, second by second, one panel per policy.
///
/// # Errors
/// The file cannot be written.
pub(super) fn draw(file: &Path, outcomes: &[Outcome]) -> Result<(), Failure> {
    let mut svg = String::new();
    let panels = u32::try_from(outcomes.len()).unwrap_or(u32::MAX).max(1);
    {
        let size = (PANEL.0, PANEL.1.saturating_mul(panels));
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(Failure::run)?;
        for (outcome, panel) in outcomes.iter().zip(area.split_evenly((outcomes.len(), 1))) {
            let end = outcome.samples.last().map_or(1.0, |sample| sample.at);
            let title = format!(
                "{}: most loaded node over the mean",
                short(outcome.policy.name())
            );
            let mut chart = ChartBuilder::on(&panel)
                .caption(title, ("sans-serif", 15))
                .margin(6)
                .x_label_area_size(22)
                .y_label_area_size(30)
                .build_cartesian_2d(0.0..end, 0.0..HIGHEST)
                .map_err(Failure::run)?;
            let spans = outcome.spans.iter();
            let areas = spans
                .clone()
                .map(|(_, from, to)| Rectangle::new([(*from, 0.0), (*to, HIGHEST)], GREY.filled()));
            chart.draw_series(areas).map_err(Failure::run)?;
            chart
                .configure_mesh()
                .disable_x_mesh()
                .x_label_formatter(&|seconds| format!("{seconds:.0} s"))
                .y_label_formatter(&|ratio| format!("{ratio:.0}"))
                .y_labels(6)
                .draw()
                .map_err(Failure::run)?;
            let names = spans.map(|(phase, from, _)| {
                Text::new(
                    phase.name(),
                    (*from, HIGHEST),
                    ("sans-serif", 11).into_font().color(&BLACK),
                )
            });
            chart.draw_series(names).map_err(Failure::run)?;
            let line = outcome
                .samples
                .iter()
                .map(|sample| (sample.at, sample.load.min(HIGHEST)));
            chart
                .draw_series(LineSeries::new(line, &RED))
                .map_err(Failure::run)?;
        }
        area.present().map_err(Failure::run)?;
    }
    std::fs::write(file, svg)
        .map_err(|error| Failure::usage(format!("cannot write {}: {error}", file.display())))
}
