/** The slope of a line through the points, both on a logarithmic scale: 2 for a square. */
export function exponentOf(points: readonly (readonly [number, number])[]): number {
  const logs = points.map(([x, y]) => [Math.log(x), Math.log(Math.max(y, 1e-9))] as const)
  const mean = (of: 0 | 1) => logs.reduce((total, log) => total + log[of], 0) / logs.length
  const [meanX, meanY] = [mean(0), mean(1)]
  const covariance = logs.reduce((total, [x, y]) => total + (x - meanX) * (y - meanY), 0)
  return covariance / logs.reduce((total, [x]) => total + (x - meanX) ** 2, 0)
}
