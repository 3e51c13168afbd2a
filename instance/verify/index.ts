/**
 * `espalier instance verify`: checks that a database's copy on a volume is sound. Postgres recovers it, as after a
 * crash. Then amcheck checks every table and index of every database, and every page is compared with its checksum.
 * This changes the copy, which must be deleted afterwards. The command accepts no connections from outside, and opens
 * none.
 */
import { chmodSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { readIfPresent } from '../files.ts'
import { Refusal } from '../refusal.ts'
import { dataDirectory, inspectVolume } from '../volume.ts'
import { checkPages } from './pages.ts'
import { checkRelations, listDatabases } from './relations.ts'
import type { VerificationResult } from './result.ts'
import { prepareCopy, runSingleUser } from './single-user.ts'

/** The maximum number of findings in the report. All findings are counted. */
const mostFindings = 5
const longestFinding = 300
/** This database exists, whatever a user does. */
const maintenanceDatabase = 'template1'

type Cluster = { version: string; checksums: string; databases: string[] }
type Relations = { relations: number; indexes: number; faults: number; findings: string[] }

/** A statement's result, as JSON in base64. */
function readAnswer<T>(path: string): T | undefined {
  const text = readIfPresent(path)
  // Espalier's own statements wrote this text.
  return text === undefined ? undefined : JSON.parse(Buffer.from(text.trim(), 'base64').toString('utf8'))
}

/** @throws Refusal if the volume contains no complete copy, and errors of the file system */
export function verify(root: string): VerificationResult {
  if (inspectVolume(root).data !== 'whole')
    throw new Refusal('data-lost', `the volume contains no complete ${dataDirectory}`)
  const data = join(root, dataDirectory)
  chmodSync(data, 0o700)
  const { workspace } = prepareCopy(root)
  const result: VerificationResult = {
    version: readFileSync(join(data, 'PG_VERSION'), 'utf8').trim(),
    ...{ databases: 0, relations: 0, indexes: 0, pages: 0, faults: 0, findings: [] },
  }
  const report = (findings: readonly string[], faults = findings.length) => {
    result.faults += faults
    for (const finding of findings)
      if (result.findings.length < mostFindings) result.findings.push(finding.slice(0, longestFinding))
  }

  const list = join(workspace, 'databases')
  const refused = runSingleUser(root, workspace, maintenanceDatabase, listDatabases(list))
  const cluster = readAnswer<Cluster>(list)
  if (refused !== undefined || cluster === undefined) {
    report([`Postgres does not recover: ${refused ?? 'it returned no list of databases'}`])
    return result
  }
  result.version = cluster.version
  for (const [index, database] of cluster.databases.entries()) {
    const to = join(workspace, `relations-${index}`)
    const ended = runSingleUser(root, workspace, database, checkRelations(to, mostFindings))
    const found = readAnswer<Relations>(to)
    result.databases++
    if (found === undefined) report([`database ${database} cannot be checked: ${ended ?? 'no result was written'}`])
    else {
      result.relations += found.relations
      result.indexes += found.indexes
      report(found.findings, found.faults)
    }
  }
  if (cluster.checksums !== 'on') return result
  const { pages, faults, findings } = checkPages(data, mostFindings)
  result.pages = pages
  report(findings, faults)
  return result
}
