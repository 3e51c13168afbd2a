/** The images, with their names and inputs. Pure. */
import { type PgVersion, pgVersions } from '../crds/index.ts'

export type Suite = 'trixie' | 'sid'

export type ImagePlan = {
  /** The image's name for `--only`, and the name of its archive. */
  id: string
  name: string
  dockerfile: 'espalier' | 'embedded' | 'postgres'
  /** The Debian suite of the base image. */
  suite: Suite
  arguments: Record<string, string>
}

/** The Postgres version of Debian's stable release. */
const stableMajor: PgVersion = '17'
/** The Postgres version of Debian's unstable release. It is used if PGDG does not answer. */
const unstableMajor: PgVersion = '18'

/** The source of a Postgres major version. Undefined if no reachable source has it. */
export function postgresSource(major: PgVersion, pgdg: boolean): { suite: Suite; pgdg: boolean } | undefined {
  if (major === stableMajor) return { suite: 'trixie', pgdg: false }
  if (pgdg) return { suite: 'trixie', pgdg: true }
  return major === unstableMajor ? { suite: 'sid', pgdg: false } : undefined
}

export const imageIds = ['espalier', 'embedded', ...pgVersions.map(major => `postgres-${major}`)]

type Plan = { images: ImagePlan[] /** Major versions that are not available. */; missing: PgVersion[] }

/** @param only ids of images; empty means all */
export function planImages(request: { tag: string; only: readonly string[]; pgdg: boolean }): Plan {
  const wanted = (id: string) => request.only.length === 0 || request.only.includes(id)
  const images: ImagePlan[] = []
  const missing: PgVersion[] = []
  const named = { espalier: 'espalier', embedded: 'espalier-embedded' } as const
  for (const id of ['espalier', 'embedded'] as const) {
    if (!wanted(id)) continue
    const name = `localhost/${named[id]}:${request.tag}`
    images.push({ id, name, dockerfile: id, suite: 'trixie', arguments: {} })
  }
  for (const major of pgVersions) {
    const id = `postgres-${major}`
    if (!wanted(id)) continue
    const source = postgresSource(major, request.pgdg)
    if (source === undefined) {
      missing.push(major)
      continue
    }
    images.push({
      id,
      name: `localhost/espalier-postgres:${major}`,
      dockerfile: 'postgres',
      suite: source.suite,
      arguments: { PG_MAJOR: major, PGDG: source.pgdg ? 'yes' : 'no' },
    })
  }
  return { images, missing }
}
