import { afterAll, afterEach, expect } from 'vitest'
import { logsOfInstalledPrograms } from './installed-programs.js'
import { readLog, unexpectedServerWarnings } from './server-warnings.js'

// For each file of tests on a cluster: no program of ours makes the API server warn.

const check = () => expect(unexpectedServerWarnings(), 'API server warned').toEqual([])

afterEach(async () => {
  for (const log of await logsOfInstalledPrograms()) readLog(log)
  check()
})

// For what programs log while they end.
afterAll(check)
