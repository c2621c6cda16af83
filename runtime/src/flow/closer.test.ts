import { expect, it } from 'vitest'
import { Closer } from './closer.js'

it('a closer closes everything in reverse order, also after a failure, and once', async () => {
  const closer = new Closer()
  const closed: string[] = []
  closer.add(() => void closed.push('first'))
  closer.add(async () => {
    closed.push('second')
    throw new TypeError('second failed')
  })
  closer.add(async () => void closed.push('third'))
  await expect(closer.close()).rejects.toThrow('second failed')
  await expect(closer.close()).rejects.toThrow('second failed')
  expect(closed).toEqual(['third', 'second', 'first'])
})
