import { expect, it } from 'vitest'
import { LogLines } from './log-lines.js'

const line = (more: object = {}) =>
  JSON.stringify({ level: 'info', time: 1, name: 'akri-agent', msg: 'agent ready', ...more })

/** @param chunks as a process writes them */
function strayOf(...chunks: readonly string[]): readonly string[] {
  const stray: string[] = []
  const lines = new LogLines(stray)
  for (const chunk of chunks) lines.add(Buffer.from(chunk))
  return stray
}

it('lines of a log are no stray lines, however they arrive', () => {
  const text = `${line()}\n${line({ level: 'error', err: { name: 'Error' } })}\n`
  expect(strayOf(text)).toEqual([])
  expect(strayOf(...text)).toEqual([])
  // The process was killed.
  expect(strayOf(`${text}{"level":"in`)).toEqual([])
})

it.each([
  'text',
  '',
  'null',
  '7',
  '{}',
  line({ level: 30 }),
  line({ time: 'now' }),
  line({ name: undefined }),
  line({ msg: '' }),
  line({ level: 'warn', msg: 'Node.js warned', err: { name: 'MaxListenersExceededWarning' } }),
])('other lines are: %s', (text) => {
  expect(strayOf(`${line()}\n${text}\n${line()}\n`)).toEqual([text])
})

it('a process that writes without end fills no memory', () => {
  const stray = strayOf(`${'x'.repeat(1_000_000)}\n`.repeat(50))
  expect(stray).toHaveLength(20)
  expect(stray[0]).toHaveLength(1000)
})
