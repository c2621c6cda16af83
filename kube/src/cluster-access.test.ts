import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { temporaryDirectory } from '../../test/support/temporary-directory.js'
import { clusterAccess, inClusterAccess } from './cluster-access.js'
import { ClusterAccessError } from './errors.js'

let directory: string

beforeEach(async () => {
  directory = await temporaryDirectory()
  // What the machine of a developer has must not matter.
  vi.stubEnv('KUBECONFIG', '')
  vi.stubEnv('HOME', directory)
})

afterEach(() => {
  vi.unstubAllEnvs()
})

const file = (name: string) => path.join(directory, name)
const base64 = (value: string) => Buffer.from(value).toString('base64')

function write(name: string, content: string): string {
  mkdirSync(path.dirname(file(name)), { recursive: true })
  writeFileSync(file(name), content)
  return file(name)
}

interface Parts {
  readonly cluster?: object
  readonly user?: object
  readonly context?: string
  readonly name?: string
}

/** A kubeconfig; JSON is YAML. */
function kubeconfig({ cluster = {}, user = {}, context, name = 'one' }: Parts = {}): string {
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': context ?? name,
    contexts: [{ name, context: { cluster: name, user: name } }],
    clusters: [{ name, cluster: { server: `https://${name}.example:6443`, ...cluster } }],
    users: [{ name, user }],
  })
}

async function credentialsOf(parts: Parts) {
  const access = await clusterAccess({
    kubeconfig: write('config', kubeconfig(parts)),
    environment: {},
  })
  return access.credentials()
}

function refusal(work: Promise<unknown>): Promise<ClusterAccessError> {
  return work.then(
    () => expect.fail('it was accepted'),
    (error: unknown) => {
      expect(error).toBeInstanceOf(ClusterAccessError)
      return error as ClusterAccessError
    },
  )
}

describe('a Pod', () => {
  const environment = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: '443' }
  const options = () => ({ environment, serviceAccountDirectory: directory })

  it('uses the current files of its service account', async () => {
    write('ca.crt', 'CA')
    write('token', 'first\n')
    const access = await clusterAccess(options())
    expect(access.server.href).toBe('https://10.96.0.1/')
    expect(await access.credentials()).toEqual({ ca: 'CA', token: 'first' })
    write('token', 'second')
    write('ca.crt', 'CA 2')
    expect(await access.credentials()).toEqual({ ca: 'CA 2', token: 'second' })
  })

  it('puts brackets around an IPv6 address', () => {
    const access = inClusterAccess({
      environment: { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '6443' },
    })
    expect(access?.server.href).toBe('https://[fd00::1]:6443/')
  })

  it('names a missing file and the remedy', async () => {
    const access = await clusterAccess(options())
    const { message, kind } = await refusal(access.credentials())
    expect(message).toContain(file('ca.crt'))
    expect(message).toContain('automountServiceAccountToken')
    expect(kind).toBe('terminal')
  })

  it('reports an environment that gives no address', async () => {
    const wrong = { KUBERNETES_SERVICE_HOST: '10.96.0.1', KUBERNETES_SERVICE_PORT: 'tcp://x' }
    expect((await refusal(clusterAccess({ environment: wrong }))).message).toContain(
      'KUBERNETES_SERVICE_PORT',
    )
  })

  it('prefers a named kubeconfig to its own cluster', async () => {
    const access = await clusterAccess({ ...options(), kubeconfig: write('config', kubeconfig()) })
    expect(access.server.host).toBe('one.example:6443')
  })

  it.each([
    {},
    { KUBERNETES_SERVICE_HOST: '10.96.0.1' },
    { KUBERNETES_SERVICE_HOST: '', KUBERNETES_SERVICE_PORT: '' },
  ])('is not assumed with the environment %j', (other) => {
    expect(inClusterAccess({ environment: other })).toBeUndefined()
  })
})

describe('a kubeconfig', () => {
  it.each<[string, Parts, object]>([
    [
      'certificates as data',
      {
        cluster: { 'certificate-authority-data': base64('CA'), 'tls-server-name': 'kubernetes' },
        user: { 'client-certificate-data': base64('CERT'), 'client-key-data': base64('KEY') },
      },
      { ca: 'CA', cert: 'CERT', key: 'KEY', token: undefined, serverName: 'kubernetes' },
    ],
    ['a token', { user: { token: 'secret' } }, { token: 'secret' }],
    ['no check', { cluster: { 'insecure-skip-tls-verify': true } }, { verify: false }],
    [
      'empty fields, which count as absent',
      { cluster: { 'certificate-authority-data': '', 'tls-server-name': '' } },
      { ca: undefined, serverName: undefined },
    ],
  ])('has %s', async (_what, parts, expected) => {
    expect(await credentialsOf(parts)).toMatchObject({ verify: true, ...expected })
  })

  it('has certificates in files, which are read for each use', async () => {
    write('ca.pem', 'CA')
    write('cert.pem', 'CERT')
    write('key.pem', 'KEY')
    const parts = {
      cluster: { 'certificate-authority': 'ca.pem' },
      user: { 'client-certificate': 'cert.pem', 'client-key': 'key.pem' },
    }
    const access = await clusterAccess({
      kubeconfig: write('config', kubeconfig(parts)),
      environment: {},
    })
    expect(await access.credentials()).toMatchObject({ ca: 'CA', cert: 'CERT', key: 'KEY' })
    write('ca.pem', 'CA 2')
    write('cert.pem', 'CERT 2')
    expect(await access.credentials()).toMatchObject({ ca: 'CA 2', cert: 'CERT 2', key: 'KEY' })
  })

  it('runs a plugin for the login', async () => {
    const answer = {
      apiVersion: 'client.authentication.k8s.io/v1',
      kind: 'ExecCredential',
      status: { token: 'from-plugin' },
    }
    const plugin = write('plugin', `#!/bin/sh\necho '${JSON.stringify(answer)}'\n`)
    chmodSync(plugin, 0o755)
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: plugin, args: [] }
    expect(await credentialsOf({ user: { exec } })).toMatchObject({ token: 'from-plugin' })
    const relative = { ...exec, command: './plugin' }
    expect(await credentialsOf({ user: { exec: relative } })).toMatchObject({
      token: 'from-plugin',
    })
  })

  it('shows the output of a plugin that fails', async () => {
    const plugin = write('plugin', '#!/bin/sh\necho "no network" >&2\nexit 1\n')
    chmodSync(plugin, 0o755)
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: plugin, args: [] }
    const { message } = await refusal(credentialsOf({ user: { exec } }))
    expect(message).toContain('user one')
    expect(message).toContain('no network')
  })

  it.each([
    ['a plugin', { user: { exec: { command: '/nowhere/plugin' } } }],
    ['a certificate', { user: { 'client-certificate': '/nowhere/cert.pem' } }],
    ['an authority', { cluster: { 'certificate-authority': '/nowhere/ca.pem' } }],
  ])('refuses to log in with %s that is not there', async (_what, parts) => {
    expect((await refusal(credentialsOf(parts))).message).toContain('/nowhere/')
  })

  it.each([
    ['proxy-url', { cluster: { 'proxy-url': 'http://proxy:3128' } }],
    ['password', { user: { username: 'me', password: 'secret' } }],
    ['another user', { user: { token: 'x', as: 'system:admin' } }],
  ])('refuses %s as not supported, rather than to ignore it', async (what, parts) => {
    const { message } = await refusal(credentialsOf(parts))
    expect(message).toContain(what)
    expect(message).not.toContain('secret')
  })

  it('is found by KUBECONFIG', async () => {
    const access = await clusterAccess({
      environment: { KUBECONFIG: write('config', kubeconfig()) },
    })
    expect(access.server.host).toBe('one.example:6443')
  })

  it('can be several files, also missing and empty: the first with a name wins', async () => {
    const files = [
      file('missing'),
      write('empty', '# none\n'),
      write('first', kubeconfig({ user: { token: 'first' }, context: 'three' })),
      write('second', kubeconfig({ cluster: { server: 'https://second' }, user: { token: 'no' } })),
      write('three', kubeconfig({ name: 'three', user: { token: 'of three' } })),
    ]
    const of = async (...names: readonly (string | undefined)[]) => {
      const access = await clusterAccess({
        environment: { KUBECONFIG: names.join(path.delimiter) },
      })
      return [access.server.host, (await access.credentials()).token]
    }
    expect(await of(...files)).toEqual(['three.example:6443', 'of three'])
    expect(await of(files[3], files[2])).toEqual(['second', 'no'])
    const { message } = await refusal(of(files[0], file('other')))
    expect(message).toContain(`there is no kubeconfig ${files[0]}, ${file('other')}`)
  })

  it.each([
    ['a directory', () => directory],
    ['a path below a file', () => path.join(write('file', ''), 'config')],
  ])('that is %s is refused by name, also among others', async (_what, name) => {
    const files = [name(), write('one', kubeconfig())]
    const { message } = await refusal(
      clusterAccess({ environment: { KUBECONFIG: files.join(path.delimiter) } }),
    )
    expect(message).toContain(`kubeconfig ${files[0]} cannot be used`)
  })

  it('can have incomplete entries that the current context does not need', async () => {
    const config = JSON.parse(kubeconfig({ user: { tokenFile: write('token', 'secret') } }))
    config.clusters.unshift({ name: 'other', cluster: {} })
    config.contexts.unshift({ name: 'other', context: null })
    config.users.unshift(null)
    const access = await clusterAccess({ kubeconfig: write('config', JSON.stringify(config)) })
    expect((await access.credentials()).token).toBe('secret')
  })

  it('has a token in a file, which is read for each use and wins over another', async () => {
    write('token', 'first\n')
    const parts = { user: { token: 'old', tokenFile: 'token' } }
    const access = await clusterAccess({
      kubeconfig: write('config', kubeconfig(parts)),
      environment: {},
    })
    expect((await access.credentials()).token).toBe('first')
    write('token', 'renewed\n')
    expect((await access.credentials()).token).toBe('renewed')
    rmSync(file('token'))
    expect((await refusal(access.credentials())).message).toContain(file('token'))
  })

  it('is found in the home directory', async () => {
    write('.kube/config', kubeconfig())
    expect((await clusterAccess({ environment: {} })).server.host).toBe('one.example:6443')
  })

  it('reports the remedy if there is no kubeconfig', async () => {
    const { message, kind } = await refusal(clusterAccess({ environment: {} }))
    expect(message).toContain(file('.kube/config'))
    expect(message).toContain('--kubeconfig')
    expect(kind).toBe('terminal')
  })

  it.each([
    ['no YAML', 'a: [b'],
    ['another form', '- a\n- b\n'],
    ['a text', 'hello'],
    ['nothing', ''],
    ['a cluster without a server', JSON.stringify({ clusters: [{ name: 'a', cluster: {} }] })],
    ['no current context', JSON.stringify({ ...JSON.parse(kubeconfig()), 'current-context': '' })],
    ['an unknown current context', kubeconfig({ context: 'other' })],
    ['an unknown user', JSON.stringify({ ...JSON.parse(kubeconfig()), users: [] })],
    ['a server that is no address', kubeconfig({ cluster: { server: 'one.example' } })],
    ['a server of another protocol', kubeconfig({ cluster: { server: 'ftp://one.example' } })],
  ])('is refused by name when it has %s', async (_what, content) => {
    const { message } = await refusal(
      clusterAccess({ kubeconfig: write('config', content), environment: {} }),
    )
    expect(message).toContain(file('config'))
  })
})
