import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { defineError, Latest, messageOf } from '@akrijs/sdk'
import type { UsbProperties } from './usb-properties.js'

/** What is plugged in. */
export interface UsbBus {
  readonly devices: readonly UsbProperties[]
  /** False on a machine without a USB controller. */
  readonly hasBus: boolean
}

export type LibraryMessage = UsbBus | { readonly problem: string }

/** The npm package `usb` cannot be loaded, or its process has ended. */
export class UsbLibraryError extends defineError('AKRI_ERR_USB_LIBRARY', 'transient') {}

/**
 * What is plugged in, again and again, by the npm package `usb` in a process of its own. Each
 * process takes 9 MB that it does not share with others.
 * @param program @default library-process.js
 * @throws UsbLibraryError
 */
export async function* followBus(
  signal: AbortSignal,
  program = path.join(import.meta.dirname, 'library-process.js'),
): AsyncGenerator<UsbBus, void, void> {
  const lists = new Latest<UsbBus>()
  const end = (how: string) =>
    signal.aborted ? lists.end() : lists.end(new UsbLibraryError(`the USB library ${how}`))
  // What it prints is not for people: what ends it comes as a message.
  const stdio = ['ignore', 'ignore', 'ignore', 'ipc'] as const
  const child = fork(program, { stdio: [...stdio], execArgv: [], signal, killSignal: 'SIGKILL' })
  child.on('message', (message: LibraryMessage) => {
    if ('problem' in message) end(`failed: ${message.problem}`)
    else lists.push(message)
  })
  // A last message can come after the exit.
  Promise.all([once(child, 'exit'), once(child, 'disconnect')]).then(
    ([[code, by]]) => end(`ended its process: ${by ?? `exit code ${code}`}`),
    (error: unknown) => end(`has no process: ${messageOf(error)}`),
  )
  try {
    yield* lists
  } finally {
    child.kill('SIGKILL')
  }
}
