/**
 * Compares the objects that the operator writes for databases, branches, backups and restores without services with
 * `testing/pinned-objects.txt`, one object per line. If an upgrade writes anything else, it writes that for every
 * existing database. `ESPALIER_WRITE_PINS=1 make test ARGS=operator/pinned.test.ts` stores the current objects.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { canonicalJson } from '../crds/index.ts'
import { podSettings } from './pod-settings.ts'
import { emptyClusterState, round } from './testing/cluster-state.ts'
import { undisturbed } from './testing/disturbances.ts'
import { scenarios } from './testing/scenarios/index.ts'
import { run } from './testing/swept-run.ts'

const path = new URL('testing/pinned-objects.txt', import.meta.url)
const warning =
  'The operator now writes other objects for databases without services. After an upgrade it writes them for every database: a pod template ' +
  'restarts Postgres or leaves a pending restart, a claim or a name creates another object, and a hash changes the phase of a database to modifying. If that is ' +
  'what you want, describe it in docs/upgrade.md, and run ESPALIER_WRITE_PINS=1 make test ARGS=operator/pinned.test.ts'

/** Without conditions, which may change. */
const pinned = new Set([
  ...['StatefulSet', 'Pod', 'Service', 'ConfigMap', 'Secret', 'PersistentVolumeClaim', 'VolumeSnapshot'],
])

const worlds = {
  plain: emptyClusterState(),
  suspended: emptyClusterState({ suspended: true }),
  large: emptyClusterState({ size: { name: 'large', version: 1 } }),
  another: { ...emptyClusterState({ pgVersion: '16' }), podSettings: podSettings.parse({ disruptionBudget: true }) },
}

/** Planned objects with constant ids, so that their digests are constant, too. */
function planned(name: string, clusterState: ReturnType<typeof emptyClusterState>): string[] {
  for (let count = 0; count < 15; count++) round(clusterState)
  const objects = [...clusterState.objects].map(([key, object]) => {
    const seen = key.startsWith('Secret/') ? object.metadata : object
    return `${name} ${key} ${canonicalJson(seen)}`
  })
  return [...objects, `${name} hash ${clusterState.database?.status?.appliedHash}`].sort()
}

/** The objects at the end of an operation, without values that differ in each run. */
async function written(name: string): Promise<string[]> {
  const scenario = scenarios.find(one => one.name === name)
  if (scenario === undefined) throw new Error(`there is no scenario ${name}`)
  const { end, complaints } = await run(scenario, undisturbed)
  expect(complaints).toEqual([])
  return end.flatMap(text => {
    const [kind, object, { status }] = JSON.parse(text)
    if (object.startsWith('espalier-')) return []
    if (pinned.has(kind)) return [`${name} ${kind}/${object} ${text}`]
    return status?.appliedHash === undefined ? [] : [`${name} ${kind}/${object} hash ${status.appliedHash}`]
  })
}

test('databases, branches, backups and restores without services have the same objects as in earlier versions', async () => {
  const plans = Object.entries(worlds).flatMap(([name, clusterState]) => planned(name, clusterState))
  // The branch's database is a created one.
  const ends = await Promise.all(['restore', 'branch'].map(written))
  const lines = [...plans, ...ends.flat()]
  if (process.env.ESPALIER_WRITE_PINS !== undefined) writeFileSync(path, `${lines.join('\n')}\n`)
  const stored = readFileSync(path, 'utf8').trimEnd().split('\n')
  const [added, removed] = [lines.filter(line => !stored.includes(line)), stored.filter(line => !lines.includes(line))]
  expect({ added, removed }, warning).toEqual({ added: [], removed: [] })
})
