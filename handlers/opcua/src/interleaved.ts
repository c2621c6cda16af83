/**
 * The items of several lists in turns: the first of each list, then the second of each, and so on.
 * Where a limit cuts the result, a long list takes no place from the short ones.
 */
export function interleaved<T>(lists: readonly (readonly T[])[]): T[] {
  return lists
    .flatMap((list) => list.map((item, index) => ({ item, index })))
    .sort((a, b) => a.index - b.index)
    .map(({ item }) => item)
}
