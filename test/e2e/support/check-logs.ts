import { afterAll, expect } from 'vitest'
import { HostProgram } from './host-program.js'

// For each test file with programs on this machine: whatever a test does to a program, it writes
// lines of its log and nothing else.
afterAll(() => expect(HostProgram.strayLines, 'lines that are not of a log').toEqual([]))
