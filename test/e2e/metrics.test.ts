import https from 'node:https'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { panels } from '../monitoring/monitoring.js'
import { readQuery, readSamples } from '../monitoring/promql.js'
import { checkMetrics, missingForPromtool } from '../monitoring/promtool.js'
import { freePort } from './support/free-port.js'
import { HostController } from './support/host-controller.js'
import { HostProgram } from './support/host-program.js'
import { podSpec, runningPodsIn } from './support/made.js'
import { NodeAgent } from './support/node-agent.js'
import { HOST, missingHere, NODE_1, setAvailable, unlessHere } from './support/nodes.js'
import { echoYaml, eventually, World } from './support/world.js'
import { HostWebhook } from './webhook/host-webhook.js'

const SECRET = 'webhook-certificates'
/** Names that dashboards of the existing system have, though Prometheus has other habits. */
const EXISTING = /^akri_(discovery_response_result|instance_count|broker_pod_count) /

describe.skipIf(missingHere() !== undefined)(`metrics of real programs${unlessHere}`, () => {
  const handler = new HostProgram('sdk/dist/akri-handler.js')
  let world: World
  let agent: NodeAgent
  let controller: HostController
  let webhook: HostWebhook
  const ports = { agent: 0, handler: 0 }

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
    ports.agent = await freePort()
    ports.handler = await freePort()
    agent = await NodeAgent.create(NODE_1, { METRICS_PORT: String(ports.agent) })
    await agent.start()
    handler.launch(
      {
        DISCOVERY_HANDLERS_DIRECTORY: path.join(agent.directory, 'h'),
        METRICS_PORT: String(ports.handler),
      },
      [path.resolve(import.meta.dirname, '../../handlers/onvif/dist/index.js')],
    )
    controller = new HostController('one', world.namespace)
    await controller.lead()
    await world.api('Secret').create(world.namespace, { metadata: { name: SECRET } })
    webhook = await HostWebhook.create({
      POD_NAMESPACE: world.namespace,
      AKRI_CERTIFICATE_SECRET: SECRET,
    })
    await webhook.start()
  })

  afterAll(async () => {
    await webhook?.stop()
    await controller?.stop()
    await handler.stop()
    await world?.clear([NODE_1])
    await agent?.dispose()
    await world?.close()
  })

  const scrape = async (port: number) => (await fetch(`http://127.0.0.1:${port}/metrics`)).text()

  it('leave no panel of the dashboard without data', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1, { brokerSpec: { brokerPodSpec: podSpec() } }))
    await world.apply(withHandler('cameras', 'onvif'))
    await world.apply(withHandler('broken', 'no-such-handler'))
    await eventually(() => runningPodsIn(world, 1))
    await review()
    await eventually(async () => {
      const samples = [
        ...readSamples(await scrape(ports.agent)),
        ...readSamples(await scrape(ports.handler)),
        ...readSamples(await controller.metrics()),
        ...readSamples(await webhook.metrics()),
      ]
      const hasData = (expr: string) =>
        readQuery(expr).selectors.every(({ metric, equal }) =>
          samples.some(
            (sample) =>
              sample.metric === metric &&
              Object.entries(equal).every(([label, value]) => sample.labels[label] === value),
          ),
        )
      const empty = panels.flatMap(({ title, targets }) =>
        targets.filter(({ expr }) => !hasData(expr)).map(({ expr }) => `${title}: ${expr}`),
      )
      expect(empty).toEqual([])
    })
  })

  const unlessPromtool = missingForPromtool === undefined ? '' : ` (${missingForPromtool})`
  it.skipIf(missingForPromtool !== undefined)(
    `are read by Prometheus, with names and help as it likes them${unlessPromtool}`,
    async () => {
      for (const metrics of [
        await scrape(ports.agent),
        await scrape(ports.handler),
        await controller.metrics(),
        await webhook.metrics(),
      ])
        expect(checkMetrics(metrics).filter((line) => !EXISTING.test(line))).toEqual([])
    },
  )

  it('come without a warning of Node.js, such as a leak of listeners', async () => {
    for (const output of [await agent.output(), handler.output, controller.output, webhook.output])
      expect(output).not.toContain('Node.js warned')
  })

  const withHandler = (name: string, discoveryHandler: string) =>
    JSON.stringify({
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name },
      spec: { discoveryHandler: { name: discoveryHandler } },
    })

  /** Asks the webhook about a Configuration, as an API server does. */
  function review(): Promise<unknown> {
    const object = JSON.parse(echoYaml('cam', ['foo0'], 1))
    const body = JSON.stringify({
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      request: { uid: 'u', operation: 'CREATE', namespace: world.namespace, name: 'cam', object },
    })
    const headers = { 'content-type': 'application/json', 'content-length': body.length }
    return new Promise((resolve, reject) => {
      const { port } = webhook
      const options = { host: HOST, port, path: '/validate', method: 'POST', headers }
      https
        .request({ ...options, rejectUnauthorized: false }, (response) => {
          response.resume().on('end', () => resolve(response.statusCode))
        })
        .on('error', reject)
        .end(body)
    })
  }
})
