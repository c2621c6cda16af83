import { describe, expect, it } from 'vitest'
import { inParallel } from './in-parallel.js'

describe('work in parallel', () => {
  it('begins when other work ends, and rejects with the first failure when idle', async () => {
    const started: string[] = []
    const ends = new Map<
      string,
      { readonly resolve: () => void; readonly reject: (error: Error) => void }
    >()
    const all = inParallel('abcd', 2, (item) => {
      started.push(item)
      return new Promise<void>((resolve, reject) => ends.set(item, { resolve, reject }))
    })
    let isOver = false
    const over = () => {
      isOver = true
    }
    all.then(over, over)
    const settle = () => new Promise((resolve) => setImmediate(resolve))
    await settle()
    expect(started).toEqual(['a', 'b'])
    ends.get('b')?.resolve()
    await settle()
    expect(started).toEqual(['a', 'b', 'c'])
    ends.get('c')?.reject(new TypeError('broken'))
    await settle()
    expect(isOver).toBe(false)
    ends.get('a')?.resolve()
    await settle()
    ends.get('d')?.resolve()
    await expect(all).rejects.toThrow('broken')
    expect(started).toEqual(['a', 'b', 'c', 'd'])
  })
})
