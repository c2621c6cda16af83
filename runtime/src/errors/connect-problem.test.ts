import { expect, it } from 'vitest'
import { connectProblem } from './connect-problem.js'

it('gives the next step for a failed connection, in place of the words of a library', () => {
  const raw = (code: string) =>
    `No connection established. Last error: Error: connect ${code} /var/lib/akri/udev.sock`
  expect(connectProblem(raw('EACCES'))).toMatch(/^this process may not open .* the group of the/)
  expect(connectProblem(raw('ENOENT'))).toMatch(/^there is no such socket .* has ended/)
  expect(connectProblem('connect ECONNREFUSED 10.0.0.7:80')).toMatch(/^no process listens there/)
  for (const text of ['', 'another problem', 'toString', raw('EWHATEVER')])
    expect(connectProblem(text)).toBe(text)
})
