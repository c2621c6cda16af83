import { describe, expect, it } from 'vitest'
import { fuzz } from './fuzz.js'

describe('fuzzing', () => {
  it('is the same each time by default', () => {
    const { parameters, timeoutMs } = fuzz({ runs: 2000 }, {})
    expect(parameters).toEqual({ numRuns: 2000, seed: 20_261_121 })
    expect(timeoutMs).toBe(320_000)
    expect(
      fuzz({ runs: 2000, seed: 5 }, { AKRI_FUZZ_RUNS: '', AKRI_FUZZ_SEED: '' }).parameters,
    ).toEqual({
      numRuns: 2000,
      seed: 5,
    })
  })

  it('takes runs and seed from variables, and extends the time limit of its test', () => {
    const { parameters, timeoutMs } = fuzz(
      { runs: 2000, msPerRun: 3 },
      { AKRI_FUZZ_RUNS: '1000000', AKRI_FUZZ_SEED: '-7' },
    )
    expect(parameters).toEqual({ numRuns: 1_000_000, seed: -7 })
    expect(timeoutMs).toBe(3_300_000)
  })

  it.each([
    { AKRI_FUZZ_RUNS: 'many' },
    { AKRI_FUZZ_RUNS: '0' },
    { AKRI_FUZZ_RUNS: '1.5' },
    { AKRI_FUZZ_SEED: 'x' },
    { AKRI_FUZZ_SEED: '99999999999' },
  ])('rejects a variable that is no number: %j', (env) => {
    expect(() => fuzz({ runs: 1 }, env)).toThrow(RangeError)
  })
})
