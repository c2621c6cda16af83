import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { serveUi, type UiServer, type UiSource } from '@akrijs/ui'
import { onTestFinished } from 'vitest'
import { root } from '../../standalone/support/akri-program.js'

/** Serves the page with a source until the test has finished. @returns its address */
export async function servedPage(source: UiSource): Promise<string> {
  return (await serverOfPage(source)).address
}

/** The same, for a test that closes the server itself. */
export async function serverOfPage(source: UiSource): Promise<UiServer> {
  const server = await serveUi({
    source,
    page: pathToFileURL(path.join(root, 'cli/dist/page/')),
    clock: systemClock,
    log: silentLogger,
  })
  onTestFinished(() => server.close())
  return server
}
