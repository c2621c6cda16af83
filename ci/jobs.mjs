// The jobs of a CI run: two run at a time, in this order.

/**
 * @typedef {object} Job
 * @property {string} name
 * @property {string} command
 * @property {{ version: string, nodes: number }} [cluster] of a Kubernetes of its own
 * @property {Record<string, string>} [env]
 * @property {boolean} [tests] whether it leaves a report of tests. @default true
 */

/** On the oldest Kubernetes: what programs expect of the API server and the kubelet. */
const OLDEST = [
  ...['cluster-contract', 'kube-client', 'reflector'].map((name) => `test/cluster/${name}.test.ts`),
  ...['agent', 'claims', 'webhook'].map((name) => `test/e2e/${name}.test.ts`),
].join(' ')

/** @type {Job[]} */
export const JOBS = [
  {
    name: 'cluster',
    cluster: { version: '1.36', nodes: 3 },
    command: 'npm run test:cluster',
  },
  { name: 'test', command: 'npm test' },
  // The tests that kill programs at random moments do it this often.
  { name: 'all', command: 'node scripts/test/test.mjs rest', env: { AKRI_CHAOS_ROUNDS: '40' } },
  { name: 'node-24', command: 'npm test', env: { PATH: `${newerNode()}:${process.env.PATH}` } },
  { name: 'start', command: 'ci/start', tests: false },
  {
    name: 'oldest',
    cluster: { version: '1.20', nodes: 2 },
    command: `npm run test:cluster -- ${OLDEST}`,
  },
  // As beside a cluster of which only the KUBECONFIG is known.
  {
    name: 'anywhere',
    cluster: { version: '1.36', nodes: 2 },
    command: 'ci/anywhere npm run test:cluster -- test/e2e/agent-restarts.test.ts',
  },
]

/**
 * What no job can run, with the reason. All other tests have to run in one of the jobs.
 * @type {{ tests: RegExp, why: string }[]}
 */
export const MAY_SKIP = []

function newerNode() {
  return `${process.env.AKRI_CI}/newer/node_modules/node/bin`
}
