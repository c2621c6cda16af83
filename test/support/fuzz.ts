/** The parameters of fast-check. */
export interface FuzzParameters {
  readonly numRuns: number
  readonly seed: number
}

export interface Fuzz {
  readonly parameters: FuzzParameters
  /** The time limit of the test, in milliseconds. It grows with the number of runs. */
  readonly timeoutMs: number
}

export interface FuzzOptions {
  /** The number of runs, unless `AKRI_FUZZ_RUNS` sets it. */
  readonly runs: number
  /** The seed, unless `AKRI_FUZZ_SEED` sets it. @default 20261121 */
  readonly seed?: number
  /** The time of a run on a slow machine, in milliseconds. @default 10 */
  readonly msPerRun?: number
}

/** The time limit of any test. */
const LEAST_MS = 300_000

/**
 * Runs and seed for the fuzzing of input from the network. Set them by hand for a longer or another
 * run:
 * `AKRI_FUZZ_RUNS=1000000 AKRI_FUZZ_SEED=7 npx vitest run handlers/onvif`.
 * @throws RangeError if a variable is no such number
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
