import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { expect, it } from 'vitest'
import { SlotClaims } from '../../core/slots/slot-claims.js'
import { noopObserver } from '../../ports/observer.js'
import { AllocationQueue } from './allocation-queue.js'

it('A17 starts an allocation after the one before has ended, also if that one fails', async () => {
  const clock = new ManualClock()
  const events: string[] = []
  const queue = new AllocationQueue({
    behaviour: {
      level: 'instance',
      async allocate([[id = ''] = []]) {
        events.push(`start ${id}`)
        await clock.sleep(100)
        events.push(`end ${id}`)
        if (id === 'first') throw new TypeError('no answer')
        return []
      },
    },
    claims: new SlotClaims(clock),
    log: silentLogger,
    observer: noopObserver,
    advertise: ({ repeat }) => events.push(repeat ? 'advertise again' : 'advertise'),
  })
  const [first, second] = [queue.add([['first']]), queue.add([['second']])]
  const failed = expect(first).rejects.toThrow('no answer')
  await clock.advance(200)
  await Promise.all([failed, second])
  expect(events).toEqual([
    'start first',
    'end first',
    'advertise again',
    'start second',
    'end second',
    'advertise',
  ])
})
