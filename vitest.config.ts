import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  resolve: { conditions: ['akri-source'] },
  ssr: { resolve: { conditions: ['akri-source'] } },
  test: {
    include: [
      '{proto,runtime,sdk,kube,api,agent,standalone,controller,webhook,cli,test,bench}/**/*.test.ts',
      '{handlers,examples}/*/**/*.test.ts',
    ],
    exclude: ['**/node_modules/**', '**/dist/**'],
    globalSetup: ['test/support/temporary-directory.ts', 'test/e2e/support/remove-node-pods.ts'],
    // Tests wait more than they compute. Those about what a machine has once take turns: test/support/alone.ts.
    maxWorkers: availableParallelism(),
    // For what does not end at all: what tests wait for has limits of its own, which say what did not come.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // As test/support/eventually.ts.
    expect: { poll: { timeout: 45_000 } },
  },
})
