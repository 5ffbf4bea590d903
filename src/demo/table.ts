/** Text of a table for a terminal: columns as wide as their widest cell, numbers to the right. */

/** Lines of a table with a rule below its head. Every row has as many cells as `head`. */
export function formatTable(
  head: readonly string[],
  rows: readonly (readonly (string | number)[])[],
): string[] {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => String(row[column] ?? '').length)),
  );
  const line = (cells: readonly (string | number)[]): string =>
    cells
      .map((cell, column) => pad(cell, widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return [line(head), widths.map((width) => '-'.repeat(width)).join('  '), ...rows.map(line)];
}

function pad(cell: string | number, width: number): string {
  return typeof cell === 'number' ? String(cell).padStart(width) : cell.padEnd(width);
}
