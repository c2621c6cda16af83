import { readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { build } from 'esbuild'

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..')

/** The bundle is not beside the files that the sources look for. */
const ownDirectories = {
  name: 'own-directories',
  setup(/** @type {import('esbuild').PluginBuild} */ bundle) {
    bundle.onLoad({ filter: /\/test\/.*\.ts$/ }, ({ path: source }) => ({
      contents: readFileSync(source, 'utf8')
        .replaceAll('import.meta.dirname', JSON.stringify(path.dirname(source)))
        .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(source).href)),
      loader: 'ts',
    }))
  },
}

export async function bundleTypeScript(/** @type {string} */ file) {
  const outfile = path.join(root, '.cache/bench', `${path.basename(file, '.ts')}.mjs`)
  await build({
    entryPoints: [path.join(root, file)],
    outfile,
    bundle: true,
    minify: true,
    platform: 'node',
    format: 'esm',
    target: 'node20',
    conditions: ['akri-source'],
    external: ['@kubernetes/client-node', 'esbuild', 'node-opcua', 'playwright-core'],
    banner: {
      js:
        "import { createRequire } from 'node:module'; " +
        'const require = createRequire(import.meta.url)',
    },
    plugins: [ownDirectories],
    logLevel: 'error',
  })
  return outfile
}

export async function loadTypeScript(/** @type {string} */ file) {
  return import(pathToFileURL(await bundleTypeScript(file)).href)
}
