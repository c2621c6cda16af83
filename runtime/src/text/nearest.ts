/** A longer text is no misspelt name, and to compare it takes time. */
const MAX_LENGTH = 40

/**
 * The candidate that a misspelt name most likely means; undefined if no candidate is near.
 * @param maxDistance the most wrong characters. Upper and lower case count as the same character
 */
export function nearest(
  name: string,
  candidates: readonly string[],
  maxDistance = 3,
): string | undefined {
  if (name.length > MAX_LENGTH) return undefined
  let best: { readonly candidate: string; readonly distance: number } | undefined
  for (const candidate of candidates) {
    const distance = distanceOf(name.toLowerCase(), candidate.toLowerCase())
    if (best === undefined || distance < best.distance) best = { candidate, distance }
  }
  return best !== undefined && best.distance <= maxDistance && best.distance < name.length
    ? best.candidate
    : undefined
}

/** The fewest additions, removals and changes of characters that turn one text into the other. */
function distanceOf(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (const [i, character] of [...a].entries()) {
    const next = [i + 1]
    for (const [j, other] of [...b].entries()) {
      next.push(
        Math.min(
          (row[j + 1] ?? 0) + 1,
          (next[j] ?? 0) + 1,
          (row[j] ?? 0) + (character === other ? 0 : 1),
        ),
      )
    }
    row = next
  }
  return row.at(-1) ?? 0
}
