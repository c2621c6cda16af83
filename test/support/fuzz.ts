/** As fast-check takes them. */
export interface FuzzParameters {
  readonly numRuns: number
  readonly seed: number
}

export interface Fuzz {
  readonly parameters: FuzzParameters
  /** For the test: it grows with the runs, in milliseconds. */
  readonly timeoutMs: number
}

export interface FuzzOptions {
  /** How often, where `AKRI_FUZZ_RUNS` does not say so. */
  readonly runs: number
  /** Where `AKRI_FUZZ_SEED` does not say so. @default 20261121 */
  readonly seed?: number
  /** What a run may take on a slow machine, in milliseconds. @default 10 */
  readonly msPerRun?: number
}

/** What any test may take. */
const LEAST_MS = 20_000

/**
 * How often what is read from the network is fuzzed, and with which seed. Longer and otherwise by hand:
 * `AKRI_FUZZ_RUNS=1000000 AKRI_FUZZ_SEED=7 npx vitest run handlers/onvif`.
 * @throws RangeError where a variable is no such number
 */
export function fuzz(
  { runs, seed = 20_261_121, msPerRun = 10 }: FuzzOptions,
  env: Readonly<Record<string, string | undefined>> = process.env,
): Fuzz {
  const numRuns = numberOf('AKRI_FUZZ_RUNS', env, { least: 1, otherwise: runs })
  const parameters = {
    numRuns,
    seed: numberOf('AKRI_FUZZ_SEED', env, { least: -(2 ** 31), otherwise: seed }),
  }
  return { parameters, timeoutMs: LEAST_MS + numRuns * msPerRun }
}

function numberOf(
  name: string,
  env: Readonly<Record<string, string | undefined>>,
  { least, otherwise }: { readonly least: number; readonly otherwise: number },
): number {
  const text = env[name]
  if (text === undefined || text === '') return otherwise
  const value = Number(text)
  if (Number.isInteger(value) && value >= least && value < 2 ** 31) return value
  throw new RangeError(`${name}: ${JSON.stringify(text)} is not a whole number from ${least} on`)
}
