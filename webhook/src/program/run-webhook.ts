import { X509Certificate } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import { ApiClient, ApiError, warningLogger } from '@akrijs/kube'
import { clusterAccess } from '@akrijs/kube/access'
import { aborted, InvalidOptionError, type Logger, systemClock } from '@akrijs/runtime'
import type { ProgramContext } from '@akrijs/runtime/program'
import { type DiscoveryHandler, findHandlerPackages } from '@akrijs/sdk/handler'
import { followCertificateFiles } from '../certificates/certificate-files.js'
import { IssuedCertificates } from '../certificates/issued-certificates.js'
import type { KeyPair } from '../certificates/x509.js'
import { WebhookMetrics } from '../metrics.js'
import { ClusterNamesInUse } from '../review/names-in-use.js'
import { Reviewer } from '../review/reviewer.js'
import { ClusterTypes } from '../schema/cluster-types.js'
import { WebhookRegistration } from '../webhook-registration.js'
import { WebhookServer } from '../webhook-server.js'
import type { WebhookProgramOptions } from './webhook-options.js'

/** Runs a replica of the webhook until the signal is aborted. */
export async function runWebhook(
  options: WebhookProgramOptions,
  {
    packagesFrom,
    log,
    signal,
    closer,
    serveHealth,
  }: ProgramContext & { readonly packagesFrom: string },
): Promise<void> {
  const clock = systemClock
  const { failurePolicy } = options
  const source = certificateSource(options)
  const client = new ApiClient({
    access: await clusterAccess({ kubeconfig: options.kubeconfig }),
    clock,
    userAgent: 'akri-webhook',
    onAnswer: ({ method, status }) => metrics.apiAnswered(method, status),
    onFailure: ({ method }, error) => {
      if (!ApiError.is(error)) metrics.apiAnswered(method, undefined)
    },
    onWarning: warningLogger(log),
  })
  closer.add(() => client.close())
  const types = new ClusterTypes({ client, clock, log })
  let pair: KeyPair | undefined
  let server: WebhookServer | undefined
  const metrics = new WebhookMetrics({
    certificate: () => pair?.cert,
    types: () => ({ source: types.source, version: types.current.version }),
  })
  let notReady: string | undefined = 'starting'
  // Before all else: a cluster that cannot be reached must show in the probes, not in a crash.
  await serveHealth({
    port: options.metricsPort,
    ready: () => notReady,
    metrics: () => metrics.registry.metrics(),
  })
  const stop = new AbortController()
  // A listener for each part, and for each document of types that is read.
  setMaxListeners(0, stop.signal)
  const running: Promise<void>[] = []
  closer.add(async () => {
    notReady = 'ending'
    // Clients of this replica learn only after a while that the replica is not ready.
    await server?.close(signal.aborted ? options.drain * 1000 : 0)
    stop.abort()
    await Promise.allSettled(running)
  })
  const handlers = await loadHandlers(options.handler, packagesFrom, log)
  let onFirst = () => {}
  const certified = new Promise<void>((resolve) => {
    onFirst = resolve
  })
  const onRenewed = (renewed: KeyPair) => {
    server?.renew(renewed)
    pair = renewed
    log.info({ expires: new X509Certificate(renewed.cert).validTo }, 'certificate in use')
    onFirst()
  }
  const registration =
    options.webhookConfiguration === undefined
      ? undefined
      : new WebhookRegistration({
          client,
          clock,
          log,
          name: options.webhookConfiguration,
          failurePolicy,
        })
  const names = new ClusterNamesInUse({ client, clock, log })
  running.push(types.run(stop.signal), names.run(stop.signal))
  // A replica that ends only answers: the registration may be that of the next release already.
  if (registration !== undefined)
    running.push(registration.run(AbortSignal.any([signal, stop.signal])))
  running.push(
    source.kind === 'files'
      ? followCertificateFiles({ ...source, clock, log, onRenewed }, stop.signal)
      : new IssuedCertificates({ ...source, client, clock, log, registration, onRenewed }).run(
          stop.signal,
        ),
  )
  // A background part ends before the signal only if it fails.
  const ended = Promise.race([aborted(signal, stop.signal), ...running])
  const until = (event: Promise<unknown>) => Promise.race([ended, event])

  notReady =
    source.kind === 'files'
      ? 'waiting for a certificate'
      : `waiting for a certificate in the Secret ${source.namespace}/${source.secret}`
  await until(certified)
  if (signal.aborted || pair === undefined) return
  const reviewer = new Reviewer({
    types: () => types.current,
    typesAreBundled: () => types.source === 'bundled',
    handlers,
    names,
    failurePolicy,
    compatibility: options.compatibility,
    clock,
    log,
  })
  const opened = await WebhookServer.open({
    port: options.port,
    keyPair: pair,
    review: (request) => reviewer.review(request),
    onReview: (...review) => metrics.reviewed(...review),
    clock,
    log,
  })
  // The certificate may have been renewed in the meantime.
  opened.renew(pair)
  server = opened
  log.info({ port: opened.port, handlers: [...handlers.keys()] }, 'webhook started')
  notReady = 'waiting for the types of the cluster'
  await until(types.attempted)
  if (signal.aborted) return
  notReady = undefined
  registration?.open()
  await ended
}

type CertificateSource =
  | { readonly kind: 'files'; readonly certFile: string; readonly keyFile: string }
  | {
      readonly kind: 'issued'
      readonly namespace: string
      readonly secret: string
      readonly names: readonly [string, ...string[]]
    }

function certificateSource(options: WebhookProgramOptions): CertificateSource {
  const {
    tlsCrtFile: certFile,
    tlsKeyFile: keyFile,
    namespace,
    service,
    serverName,
    certificateSecret: secret,
  } = options
  if (certFile !== undefined && keyFile !== undefined) return { kind: 'files', certFile, keyFile }
  if (certFile !== undefined || keyFile !== undefined)
    throw new InvalidOptionError('--tls-crt-file and --tls-key-file go together')
  if (namespace === undefined)
    throw new InvalidOptionError(
      'give --namespace (POD_NAMESPACE) for a certificate of its own, or one by ' +
        '--tls-crt-file and --tls-key-file',
    )
  return {
    kind: 'issued',
    namespace,
    secret,
    names: [`${service}.${namespace}.svc`, ...serverName],
  }
}

/** A handler that cannot be loaded is logged, and its details are not checked. */
async function loadHandlers(
  specifiers: readonly string[],
  from: string,
  log: Logger,
): Promise<ReadonlyMap<string, DiscoveryHandler>> {
  const onUnusable = (error: unknown) => log.error({ err: error }, 'handler load failed')
  const handlers = new Map<string, DiscoveryHandler>()
  for (const { name, load } of await findHandlerPackages(specifiers, from, onUnusable)) {
    try {
      handlers.set(name, await load())
    } catch (error) {
      onUnusable(error)
    }
  }
  return handlers
}
