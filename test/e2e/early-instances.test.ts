import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { withoutRequiredFields } from '../cluster/support/custom-resources.js'
import { akri } from './support/akri-command.js'
import { hasKubectl } from './support/kubectl.js'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, NODES, setAvailable } from './support/nodes.js'
import { tidyUp } from './support/tidy-up.js'
import { echoYaml, eventually, type InstanceState, World } from './support/world.js'

// Agents of Akri before 0.13.8 wrote Instances without two fields that the custom resource now
// requires: without them, an API server refuses each change of the spec.

const lacks = missingHere() ?? (hasKubectl() ? undefined : 'needs kubectl')
const NAME = 'cam-8120fe'
const MISSING = { cdiName: 'akri.sh/cam=8120fe', capacity: 2 }

describe.skipIf(lacks !== undefined)(
  `an Instance of Akri 0.12${lacks === undefined ? '' : ` (${lacks})`}`,
  () => {
    let world: World
    let agents: readonly NodeAgent[]
    let uid: string

    const instance = async () =>
      (await world.get<InstanceState>('Instance', NAME)) ?? expect.fail('there is no Instance')

    beforeAll(async () => {
      await setAvailable(true)
      world = await World.open()
      agents = await Promise.all(NODES.map((node) => NodeAgent.create(node)))
      await world.apply(echoYaml('cam', ['foo0'], MISSING.capacity))
      const cam = await world.get<InstanceState>('Configuration', 'cam')
      const owner = { apiVersion: 'akri.sh/v0', kind: 'Configuration', name: 'cam' }
      const early = JSON.stringify({
        apiVersion: 'akri.sh/v0',
        kind: 'Instance',
        metadata: {
          name: NAME,
          ownerReferences: [{ ...owner, uid: cam?.metadata.uid, controller: true }],
        },
        spec: {
          configurationName: 'cam',
          shared: true,
          brokerProperties: { DEBUG_ECHO_DESCRIPTION: 'foo0' },
          nodes: [NODE_1],
          deviceUsage: { [`${NAME}-0`]: '', [`${NAME}-1`]: '' },
        },
      })
      await withoutRequiredFields(world.client, () => world.apply(early))
      uid = (await instance()).metadata.uid
    })

    afterAll(() =>
      tidyUp(
        () => Promise.all((agents ?? []).map((agent) => agent.dispose())),
        async () => world?.close(),
      ),
    )

    it('is offered, and gets the fields that it lacks', async () => {
      expect((await instance()).spec).not.toHaveProperty('cdiName')
      expect((await akri('migrate', 'check')).stdout).toContain(
        `write spec.cdiName, which is missing: ${MISSING.cdiName}`,
      )
      for (const agent of agents) await agent.start()
      await eventually(async () => {
        expect(await world.allocatables(`akri.sh/${NAME}`)).toEqual([2, 2])
        expect((await instance()).spec).toMatchObject({ ...MISSING, nodes: [...NODES] })
      })
      expect((await instance()).metadata.uid).toBe(uid)
    })
  },
)
