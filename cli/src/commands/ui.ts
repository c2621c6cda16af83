import { InvalidOptionError, systemClock } from '@akrijs/runtime'
import { type ProcessContext, print } from '@akrijs/runtime/program'
import { type ProxiedUi, serveUi } from '@akrijs/ui'
import type { UiOptions } from '../command-options.js'
import { openCluster } from '../objects/open-source.js'
import { PAGE } from '../page-files.js'
import { ClusterSource } from '../ui/cluster-source.js'

/** `akri ui`: serves the page of a cluster until the signal is aborted. */
export async function ui(options: UiOptions, context: ProcessContext): Promise<void> {
  const { signal, log, closer, mayBlock } = context
  const proxied = proxiedUi(options)
  const { client, namespace } = await mayBlock(() => openCluster(options, context))
  const shown = namespace === '' ? 'all namespaces' : namespace
  const title = [options.context ?? [], shown].flat().join(' · ')
  const guide =
    proxied === undefined
      ? 'open the page with the devices'
      : `the page for visitors of ${proxied.hosts.join(', ')}`
  const about = { title, isCluster: true }
  const source = new ClusterSource({ about, client, namespace, clock: systemClock, log })
  const serve = async () => {
    // No page shows for a moment that there are no devices.
    await mayBlock(() => source.begun())
    const page = await serveUi({
      ...{ source, page: PAGE, port: options.port, clock: systemClock, log, proxied },
      remedy: 'choose another port with --port',
    })
    closer.own(page)
    if (options.logFormat === 'json') log.info({ address: page.address }, 'page served')
    else print(process.stdout, `akri: ${guide}: ${page.address}\n`)
  }
  await Promise.all([source.run(signal), serve()])
}

/** @returns undefined if the page is for visitors of this machine */
function proxiedUi({ listen, allowedHost }: UiOptions): ProxiedUi | undefined {
  if (allowedHost.length > 0)
    return { hosts: allowedHost, listen: listen === 'all' ? undefined : listen }
  if (listen === LOOPBACK) return undefined
  throw new InvalidOptionError(
    `--listen ${listen} needs --allowed-host: give the page to others only behind a proxy that ` +
      'knows its visitors; see docs/ui.md',
  )
}

/** The default of `--listen`. */
const LOOPBACK = '127.0.0.1'
