/**
 * The environment of a program whose clock is ahead of that of the machine: what it does after
 * minutes comes sooner.
 */
export function clockAheadBy(ms: number): { readonly NODE_OPTIONS: string } {
  const script = `const now = Date.now; Date.now = () => now() + ${ms}`
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(script)}` }
}
