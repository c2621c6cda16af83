// The size of `npm install @akrijs/sdk`: packs the SDK, and counts.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const sdk = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../sdk')

export async function measure() {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'akri-bench-'))
  try {
    const [packed] = JSON.parse(
      execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], {
        cwd: sdk,
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }),
    )
    // grpc-js alone: 13 MB, 33 packages.
    return [
      {
        what: '@akrijs/sdk installed',
        value: packed.unpackedSize / 1e6,
        unit: 'MB',
        budget: 10,
        peer: { name: '@grpc/grpc-js alone', value: 13 },
      },
    ]
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
