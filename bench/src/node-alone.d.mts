import type { Memory } from './memory.mjs'

export function nodeAlone(): Promise<{ readonly startMs: number; readonly memory: Memory }>
