import os from 'node:os'
import { expect, it } from 'vitest'
import { findHandler } from './discover.js'

// Nothing is installed there.
const from = os.tmpdir()

it('a misspelt name of a built-in handler is refused with the name', async () => {
  await expect(findHandler('udef', from)).rejects.toThrow(
    'there is no handler udef; did you mean udev?',
  )
})

it('a built-in handler that cannot be loaded is refused with the reason', async () => {
  await expect(findHandler('udev', from)).rejects.toMatchObject({
    code: 'AKRI_ERR_HANDLER_PACKAGE',
    message: expect.stringContaining('@akrijs/handler-udev'),
  })
})
