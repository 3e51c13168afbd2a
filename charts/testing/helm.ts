/** For tests of the charts: locates Helm, and renders. */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, globSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'vitest'
import { parseAllDocuments } from 'yaml'

/** Returns `ESPALIER_HELM`; otherwise Helm on the PATH; otherwise the Helm that `make kind-up` has built. */
export function findHelm(): string | undefined {
  const given = process.env.ESPALIER_HELM
  if (given) return given
  if (spawnSync('helm', ['version']).status === 0) return 'helm'
  const cache = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')
  return globSync(join(cache, 'espalier/kind/programs/*/helm')).find(path => existsSync(path))
}

// biome-ignore lint/suspicious/noExplicitAny: the template defines the type of a rendered object
export type Rendered = any

type Rendering = { ok: true; objects: Rendered[] } | { ok: false; message: string }

const cluster = ['--kube-version', '1.36.0']

const run = (helm: string, args: string[]): { ok: boolean; stdout: string; stderr: string } => {
  const { status, stdout, stderr } = spawnSync(helm, args, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
  return { ok: status === 0, stdout, stderr: `${stderr}${stdout}` }
}

/** A chart rendered with these flags (`--set`, `-f`), including hooks and tests. */
function render(helm: string, chart: string, flags: string[]): Rendering {
  const { ok, stdout, stderr } = run(helm, [
    'template',
    'espalier',
    chart,
    '--namespace',
    'espalier-system',
    ...cluster,
    ...flags,
  ])
  if (!ok) return { ok, message: stderr }
  try {
    // A document ends at a separator line. No line within a template's document begins with ---.
    return { ok, objects: stdout.split(/^---$/m).flatMap(text => structuredClone(parsed(text))) }
  } catch (error) {
    return { ok: false, message: String(error) }
  }
}

const known = new Map<string, Rendered[]>()

/** Most of a chart does not depend on its values, so each text is parsed only once. @throws Error with the reason */
function parsed(text: string): Rendered[] {
  const before = known.get(text)
  if (before !== undefined) return before
  const documents = parseAllDocuments(text, { merge: true })
  const broken = documents.flatMap(document => document.errors)
  if (broken.length > 0) throw new Error(broken.map(error => error.message).join('\n'))
  const objects = documents.map(document => document.toJS()).filter(object => object !== null)
  known.set(text, objects)
  return objects
}

/** Throws with the reason. */
function lint(helm: string, chart: string, flags: string[]): void {
  const args = ['lint', '--strict', chart, '--namespace', 'espalier-system', ...cluster, ...flags]
  execFileSync(helm, args, { encoding: 'utf8', stdio: 'pipe' })
}

/** A chart, as Helm reads it. */
type Chart = {
  /** @throws Error with Helm's message if it refuses */
  rendered(flags?: string[]): Rendered[]
  /** Returns Helm's error message. @throws Error if Helm accepts the flags */
  refused(flags: string[]): string
  /** @throws Error with the reason */
  lint(flags?: string[]): void
}

/** Runs tests on the rendered chart in a directory; without Helm, the tests are reported as skipped. */
export function describeChart(name: string, directory: string, tests: (chart: Chart) => void): void {
  const helm = findHelm()
  if (helm === undefined) {
    test.skip(`${name}: needs helm`)
    return
  }
  const rendered = (flags: string[] = []) => {
    const result = render(helm, directory, flags)
    if (!result.ok) throw new Error(result.message)
    return result.objects
  }
  const refused = (flags: string[]) => {
    const result = render(helm, directory, flags)
    if (result.ok) throw new Error('the chart was rendered, although it must be refused')
    return result.message
  }
  describe(name, () => tests({ rendered, refused, lint: (flags = []) => lint(helm, directory, flags) }))
}

export const named = (objects: Rendered[], kind: string, name: string): Rendered =>
  objects.find(object => object.kind === kind && object.metadata.name === name)
