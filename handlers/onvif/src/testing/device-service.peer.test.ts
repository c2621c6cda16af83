import { execFile, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { DeviceService } from './device-service.js'
import { SNAPSHOT } from './snapshot.js'

const credential = { username: 'operator', password: 'correct horse' }

describe('a simulated camera', () => {
  it.skipIf(spawnSync('curl', ['--version']).status !== 0)(
    'sends its picture to a client with the password (needs curl)',
    async () => {
      for (const algorithms of [['MD5'], ['SHA-256'], ['SHA-256', 'MD5']] as const) {
        await using camera = await DeviceService.start({ credential, algorithms })
        const fetch = (password: string) =>
          promisify(execFile)(
            'curl',
            [
              '-s',
              '--digest',
              '-u',
              `operator:${password}`,
              '-w',
              '%{stderr}%{http_code}',
              new URL('/snapshot/sub', camera.url).href,
            ],
            { encoding: 'buffer' },
          )
        const right = await fetch(credential.password)
        expect([right.stderr.toString(), right.stdout.equals(SNAPSHOT)]).toEqual(['200', true])
        const wrong = await fetch('another')
        expect([wrong.stderr.toString(), wrong.stdout.length]).toEqual(['401', 0])
      }
    },
  )
})
