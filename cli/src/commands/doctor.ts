import { writeFile } from 'node:fs/promises'
import { ApiError } from '@akrijs/kube'
import { codeOf, InvalidOptionError, printable } from '@akrijs/runtime'
import type { DoctorOptions } from '../command-options.js'
import { bundleOf } from '../doctor/bundle.js'
import { CHECKS } from '../doctor/checks.js'
import { ExaminedCluster } from '../doctor/examined-cluster.js'
import type { Finding } from '../doctor/finding.js'
import { ClusterProblemsError, NotInstalledError } from '../errors.js'
import type { ClusterObjects } from '../objects/cluster-objects.js'
import { formatMessages } from '../view/table.js'

interface PartFinding extends Finding {
  readonly part: string
}

/**
 * `akri doctor`: examines a cluster, and says for each problem what to do.
 * @param wallMs the clock of this machine
 * @throws ClusterProblemsError after the report, if there is a problem; ApiUnreachableError
 */
export async function doctor(
  { bundle }: Pick<DoctorOptions, 'bundle'>,
  objects: ClusterObjects,
  wallMs: () => number,
): Promise<void> {
  const cluster = new ExaminedCluster(objects, wallMs)
  const found = await Promise.all(
    Object.entries(CHECKS).map(async ([part, check]): Promise<PartFinding[]> => {
      const findings = await check(cluster).catch(unreadable)
      return findings.map((finding) => ({ part, ...finding }))
    }),
  )
  const findings = found.flat()
  const rows = findings.map(({ level, part, text, remedy }) => [
    level,
    part,
    remedy === undefined ? text : `${text}\n${remedy}`,
  ])
  const lines = formatMessages(['STATE', 'PART', 'FINDING'], rows)
  process.stdout.write(`${lines.map(printable).join('\n')}\n`)
  if (bundle !== undefined) await writeBundle(bundle, await bundleOf(cluster, findings))
  const problems = findings.filter(({ level }) => level === 'problem').length
  if (problems > 0)
    throw new ClusterProblemsError(`${problems} problem${problems === 1 ? '' : 's'} found`)
}

/** A part that this user may not read, or that the cluster does not have, keeps no other back. */
function unreadable(error: unknown): Finding[] {
  if (!ApiError.is(error) && !(error instanceof NotInstalledError)) throw error
  return [{ level: 'unknown', text: error.message }]
}

/** A bundle is for this user only, until its reader has seen what is in it. */
async function writeBundle(file: string, text: string): Promise<void> {
  try {
    await writeFile(file, text, { flag: 'wx', mode: 0o600 })
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
    throw new InvalidOptionError(`${file} exists: give --bundle the name of a new file`)
  }
  process.stdout.write(`\n${printable(file)} has what a report of a bug needs: read it first\n`)
}
