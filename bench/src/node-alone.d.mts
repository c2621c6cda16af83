import type { Figure } from './table.mjs'

export function nodeAlone(
  flags?: readonly string[],
): Promise<Record<'start' | 'memory', NonNullable<Figure['peer']>>>
