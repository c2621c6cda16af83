// Commits the new version, tags the commit and pushes both: the tag starts
// .github/workflows/release.yml. The last step of `npm run release`.
import { spawnSync } from 'node:child_process'
import { manifestOf, root } from './workspaces.mjs'

const { version } = manifestOf('.')
git('add', '--all')
git('commit', '--quiet', '--message', `release: ${version}`)
git('tag', '--annotate', '--message', `akri.js ${version}`, `v${version}`)
// All or nothing: a tag without its commit in the branch would be released.
git('push', '--quiet', '--atomic', 'origin', 'HEAD', `refs/tags/v${version}`)

function git(...args) {
  const { status } = spawnSync('git', args, { cwd: root, stdio: 'inherit' })
  if (status === 0) return
  process.stderr.write(`git ${args[0]} failed: see above\n`)
  process.exit(1)
}
