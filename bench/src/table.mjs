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
  const header = ['what', 'measured', 'budget', '', 'ratio']
  const widths = header.map((_, column) =>
    Math.max(...[header, ...rows].map((row) => row[column].length)),
  )
  for (const row of [header, ...rows]) {
    process.stdout.write(
      `${row
        .map((cell, column) => cell.padEnd(widths[column]))
        .join('  ')
        .trimEnd()}\n`,
    )
  }
  return figures.every(({ value, budget }) => value <= budget)
}

export function percentile(/** @type {number[]} */ values, /** @type {number} */ share) {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
}

function round(/** @type {number} */ value) {
  return value >= 100 ? String(Math.round(value)) : value.toPrecision(2).replace(/\.0$/, '')
}
