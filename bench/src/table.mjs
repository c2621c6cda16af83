/**
 * @typedef {{ what: string, value: number, unit: string, budget: number, peer?: { name: string,
 * value: number } }} Figure
 */

/**
 * Prints each figure with its budget and the ratio to its peer. Returns whether all figures keep
 * their budgets.
 */
export function printFigures(/** @type {Figure[]} */ figures) {
  const rows = figures.map(({ what, value, unit, budget, peer }) => [
    what,
    `${round(value)} ${unit}`,
    `<= ${budget} ${unit}`,
    value <= budget ? 'kept' : 'BROKEN',
    peer ? `${round(value / peer.value)} x ${peer.name} (${round(peer.value)} ${unit})` : '',
  ])
  printRows([['what', 'measured', 'budget', '', 'ratio'], ...rows])
  return figures.every(({ value, budget }) => value <= budget)
}

/** Prints rows in columns. The first row is the header. */
export function printRows(/** @type {(readonly string[])[]} */ rows) {
  const widths = rows[0].map((_, column) => Math.max(...rows.map((row) => row[column].length)))
  for (const row of rows) {
    const cells = row.map((cell, column) => cell.padEnd(widths[column]))
    process.stdout.write(`${cells.join('  ').trimEnd()}\n`)
  }
}

export function percentile(/** @type {number[]} */ values, /** @type {number} */ share) {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
}

function round(/** @type {number} */ value) {
  return value >= 100 ? String(Math.round(value)) : value.toPrecision(2).replace(/\.0$/, '')
}
