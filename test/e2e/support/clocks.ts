/**
 * The environment of a program whose clock is ahead of that of the machine: what it does after
 * minutes comes sooner.
 */
export function clockAheadBy(ms: number): { readonly NODE_OPTIONS: string } {
  const script = `const now = Date.now; Date.now = () => now() + ${ms}`
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` }
}

/**
 * The environment of a program whose clock is slow, so that what it does after a time comes later.
 * Its timers are not slow.
 */
export function clockSlowedBy(factor: number): { readonly NODE_OPTIONS: string } {
  const script =
    'const now = Date.now; const start = now();' +
    `Date.now = () => Math.floor(start + (now() - start) / ${factor})`
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` }
}
