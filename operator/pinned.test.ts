/**
 * What the operator writes for databases, branches, backups and restores without services is stored in `testing/pinned-objects.txt`, one
 * object a line. An upgrade that writes anything else writes it for every database there is.
 * `ESPALIER_WRITE_PINS=1 make test ARGS=operator/pinned.test.ts` stores what is written now.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { canonicalJson } from '../crds/index.ts'
import { podSettings } from './pod-settings.ts'
import { undisturbed } from './testing/disturbances.ts'
import { emptyWorld, round } from './testing/plan-world.ts'
import { scenarios } from './testing/scenarios/index.ts'
import { run } from './testing/swept-run.ts'

const path = new URL('testing/pinned-objects.txt', import.meta.url)
const warning =
  'What the operator writes for databases without services has changed. After an upgrade that is written for every database: a pod template ' +
  'restarts Postgres or leaves a pending restart, a claim or a name makes another object, and a hash makes a database modifying. If that is ' +
  'what you want, describe it in docs/upgrade.md, and run ESPALIER_WRITE_PINS=1 make test ARGS=operator/pinned.test.ts'

/** Without what conditions say: that may change. */
const pinned = new Set([
  ...['StatefulSet', 'Pod', 'Service', 'ConfigMap', 'Secret', 'PersistentVolumeClaim', 'VolumeSnapshot'],
])

const worlds = {
  plain: emptyWorld(),
  suspended: emptyWorld({ suspended: true }),
  large: emptyWorld({ size: { name: 'large', version: 1 } }),
  another: { ...emptyWorld({ pgVersion: '16' }), podSettings: podSettings.parse({ disruptionBudget: true }) },
}

/** Objects as they are planned with ids that do not change, so with their digests. */
function planned(name: string, world: ReturnType<typeof emptyWorld>): string[] {
  for (let count = 0; count < 15; count++) round(world)
  const objects = [...world.objects].map(([place, object]) => {
    const seen = place.startsWith('Secret/') ? object.metadata : object
    return `${name} ${place} ${canonicalJson(seen)}`
  })
  return [...objects, `${name} hash ${world.database?.status?.appliedHash}`].sort()
}

/** Objects in the end of an operation, without what is each run's own. */
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

test('databases, branches, backups and restores without services get the objects that they always got', async () => {
  const plans = Object.entries(worlds).flatMap(([name, world]) => planned(name, world))
  // The database of the branch is one that was created.
  const ends = await Promise.all(['restore', 'branch'].map(written))
  const lines = [...plans, ...ends.flat()]
  if (process.env.ESPALIER_WRITE_PINS !== undefined) writeFileSync(path, `${lines.join('\n')}\n`)
  const stored = readFileSync(path, 'utf8').trimEnd().split('\n')
  const [added, gone] = [lines.filter(line => !stored.includes(line)), stored.filter(line => !lines.includes(line))]
  expect({ added, gone }, warning).toEqual({ added: [], gone: [] })
})
