/** Longer ones are no misspelt names, and comparing them takes time. */
const MAX_LENGTH = 40

/**
 * Of some names the one that was most likely meant; undefined where none is near.
 * @param maxDistance how many characters may be wrong, apart from their case
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

/** How many characters have to be added, removed or changed to get from one text to the other. */
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
