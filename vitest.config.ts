import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import { defineConfig } from 'vitest/config'

const CLUSTER = ['test/{cluster,e2e,chaos}/**/*.test.ts']
/** Tests with programs of others, such as a udevd or an OPC UA server in C. */
const WITH_PEERS = '**/*.peer.test.ts'
const WITHOUT_PEERS = '!(*.peer).test.ts'
/** What a test file contains that changes its process, or that talks to another one. */
const NEEDS_ISOLATION = [
  /from 'node:(?!assert|buffer|path|util)/,
  /\bvi\.(mock|stub|spyOn|useFake)|\bprocess\./,
  // These talk to other processes, and these harnesses open sockets and files.
  /test-peers|\b(registration-harness|inventory-harness|node-environment|temporary-directory)\.js/,
]

/** Projects that npm create writes; their tests are for node:test. */
const TEMPLATES = 'create-handler/templates/**'

const packages = readdirSync(import.meta.dirname, { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && !/^(node_modules|\..*)$/.test(entry.name))
  .map(({ name }) => name)

/** These need built packages: they start programs, or load handlers as Node does. */
const WITH_BUILD = [
  `examples/*/src/**/${WITHOUT_PEERS}`,
  // Not `**`: `.cache` may hold a whole version of before, with tests of its own.
  ...packages.map(
    (folder) =>
      `${folder}/**/src/**/{broker-set,control,end-with-stdin,handler-package,pack}.test.ts`,
  ),
]
/** What a user of this repository sees, with nothing but Node and this machine. */
const USER = [
  ...WITH_BUILD,
  `test/{standalone,programs,docs,create-handler}/**/${WITHOUT_PEERS}`,
  '{ci,scripts}/*.test.mjs',
]
const pure = packages
  .flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((file) =>
      path.join(folder, file),
    ),
  )
  .filter((file) => /\/src\/.*(?<!\.peer)\.test\.ts$/.test(file))
  .filter((file) => {
    const text = readFileSync(file, 'utf8')
    return !NEEDS_ISOLATION.some((pattern) => pattern.test(text))
  })

const conditions = ['akri-source']
const shared = { resolve: { conditions }, ssr: { resolve: { conditions } } }
const limits = {
  // The limit of a test that never ends. What a test waits for has limits of its own, and they
  // report what did not come.
  testTimeout: 600_000,
  hookTimeout: 600_000,
  // As test/support/eventually.ts.
  expect: { poll: { timeout: 120_000 } },
}

const NO_TESTS = ['**/node_modules/**', TEMPLATES]

export default defineConfig({
  test: {
    globalSetup: ['test/support/temporary-directory.ts'],
    // Tests wait more than they compute. Those about what a machine has once take turns:
    // test/support/alone.ts.
    maxWorkers: Number(process.env.AKRI_TEST_WORKERS ?? 2 * availableParallelism()),
    // What a test prints is news only if the test fails.
    silent: 'passed-only',
    // Progress is a line for each file. Tests of this many milliseconds have a line of their own.
    slowTestThreshold: 10_000,
    projects: [
      {
        ...shared,
        test: {
          ...limits,
          name: 'pure',
          include: pure,
          exclude: WITH_BUILD,
          // One process loads each module once for all files: half the time.
          isolate: false,
        },
      },
      {
        ...shared,
        test: {
          ...limits,
          name: 'unit',
          include: packages.map((folder) => `${folder}/**/src/**/${WITHOUT_PEERS}`),
          exclude: [...pure, ...WITH_BUILD, ...NO_TESTS],
        },
      },
      { ...shared, test: { ...limits, name: 'user', include: USER, exclude: NO_TESTS } },
      {
        ...shared,
        test: {
          ...limits,
          name: 'system',
          include: [WITH_PEERS, '{test/!(cluster|e2e|chaos),bench}/**/*.test.{ts,mjs}'],
          exclude: [...USER, ...NO_TESTS],
        },
      },
      {
        ...shared,
        test: {
          ...limits,
          name: 'cluster',
          include: CLUSTER,
          globalSetup: ['test/e2e/support/remove-node-pods.ts'],
          setupFiles: [
            'test/e2e/support/check-logs.ts',
            'test/e2e/support/without-server-warnings.ts',
          ],
        },
      },
    ],
  },
})
