import path from 'node:path'
import { build } from 'esbuild'
import { expect, it } from 'vitest'

it('loads gRPC, YAML, logs and metrics only to serve: the agent has them itself', async () => {
  const { metafile } = await build({
    entryPoints: [path.join(import.meta.dirname, 'index.ts')],
    bundle: true,
    write: false,
    metafile: true,
    platform: 'node',
    format: 'esm',
    conditions: ['akri-source'],
    plugins: [
      {
        name: 'what is loaded later',
        setup: ({ onResolve }) =>
          onResolve({ filter: /./ }, ({ kind, path: imported }) =>
            kind === 'dynamic-import' ? { path: imported, external: true } : undefined,
          ),
      },
    ],
  })
  const packages = Object.keys(metafile.inputs).filter((file) => file.includes('node_modules'))
  expect(packages).toEqual([])
})
