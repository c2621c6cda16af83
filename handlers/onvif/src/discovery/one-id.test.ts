import { expect, it } from 'vitest'
import { alone } from '../../../../test/support/alone.js'
import { eventually } from '../../../../test/support/eventually.js'
import { DeviceService } from '../testing/device-service.js'
import {
  clock,
  close,
  endRound,
  find,
  IP,
  idsOf,
  next,
  open,
  start,
} from '../testing/internal/rounds.js'

// All tests of this machine share the loopback interface.
alone()

it('a camera with several URLs has one id on all nodes, also after a lost request', async () => {
  await using first = await DeviceService.start({ address: IP })
  await using second = await DeviceService.start({ address: IP })
  const camera = await start({ xAddrs: [first.url, second.url] })
  first.misbehave('silence')
  const unlucky = open()
  await endRound()
  await eventually(() => expect(first.requests).toHaveLength(1))
  first.misbehave(undefined)
  // The time limit of a request.
  await clock.advance(3000)
  const id = `${first.url}-${camera.uuid}`
  expect(idsOf(await next(unlucky))).toEqual([id])
  // The camera had answered at the other URL before.
  expect(second.requests.length).toBeGreaterThan(0)
  await close(unlucky)
  expect(idsOf(await find())).toEqual([id])
})
