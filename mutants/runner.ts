/**
 * A test runner for Stryker that loads the product once. Stryker's Vitest runner starts a worker for each mutant, which
 * takes seconds, while the test that kills the mutant takes milliseconds. This runner activates mutants in a process
 * that has already loaded the product, and loads only the test files again. Stryker starts a new process for mutants
 * that run when a module is loaded, and after a hang.
 */
import { globSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  collectTests,
  type File,
  type Suite,
  startTests,
  type Task,
  type Test,
  type VitestRunner,
} from '@vitest/runner'

/** The global state that the instrumented code and Stryker share. */
type Instrumentation = {
  activeMutant?: string | undefined
  currentTestId?: string | undefined
  hitCount?: number | undefined
  hitLimit?: number | undefined
  mutantCoverage: Coverage
}
/** How often each mutant was hit, by its id: while modules were loaded, and in each test. */
type Hits = Record<string, number>
type Coverage = { static: Hits; perTest: Record<string, Hits> }
const instrumentation: Instrumentation = { mutantCoverage: { static: {}, perTest: {} } }
Object.assign(globalThis, { __stryker__: instrumentation })

/** The test results, as Stryker numbers them. */
const [passed, failed] = [0, 1]

type TestResult = {
  id: string
  name: string
  fileName: string
  timeSpentMs: number
  status: number
  failureMessage?: string
}

type MutantRun = {
  testFilter?: string[]
  hitLimit?: number
  activeMutant: { id: string }
  mutantActivation: 'runtime' | 'static'
}

/** Returns the test files of the group, in the group's order. */
const testFiles = (): string[] => [
  ...new Set((process.env.MUTANTS_TESTS ?? '').split('\n').flatMap(pattern => globSync(pattern).sort())),
]

/** Makes tests import mutants/fast-check.ts instead of fast-check. */
function replaceFastCheck(): void {
  const bounded = pathToFileURL(resolve('mutants/fast-check.ts')).href
  registerHooks({
    resolve: (specifier, context, next) =>
      specifier === 'fast-check' && context.parentURL !== bounded
        ? { url: bounded, shortCircuit: true }
        : next(specifier, context),
  })
}

/** Sets the global state that `expect` normally reads from a worker of Vitest. */
function setWorkerState(): void {
  const config = { expect: { poll: { timeout: 1_500, interval: 20 } }, snapshotOptions: {} }
  Object.assign(globalThis, { __vitest_worker__: { config, ctx: {}, environment: { name: 'node' } } })
}

const testsIn = (tasks: readonly Task[]): Test[] =>
  tasks.flatMap(task => (task.type === 'suite' ? testsIn(task.tasks) : [task]))

const nameOf = (task: Test | Suite): string =>
  task.suite && !('filepath' in task.suite) ? `${nameOf(task.suite)} > ${task.name}` : task.name

const limit = Number(process.env.MUTANTS_TEST_LIMIT ?? 3_000)
const limits = { testTimeout: limit, hookTimeout: limit, retry: 0, maxConcurrency: 1 }

/** Runs test files one after another, until the first failure. */
class Files implements VitestRunner {
  readonly config: VitestRunner['config'] = {
    ...limits,
    root: process.cwd(),
    setupFiles: [],
    name: undefined,
    passWithNoTests: true,
    allowOnly: true,
    testNamePattern: undefined,
    chaiConfig: undefined,
    diffOptions: undefined,
    includeTaskLocation: true,
    sequence: { seed: 1, hooks: 'stack', setupFiles: 'list' },
    tags: [],
    tagsFilter: undefined,
    strictTags: false,
  }
  readonly #ids = new Map<Test, string>()
  #imports = 0
  #hasFailed = false
  #only: ReadonlySet<string> | undefined
  #current: Test | undefined

  constructor() {
    process.on('uncaughtException', error => {
      this.#hasFailed = true
      if (this.#current?.result) Object.assign(this.#current.result, { state: 'fail', errors: [error] })
    })
  }

  /** Loads a test file again, but not the modules that it imports. */
  importFile(path: string): unknown {
    this.#imports += 1
    return import(`${pathToFileURL(path).href}?run=${this.#imports}`)
  }

  onCollected(files: File[]): void {
    for (const { filepath, tasks } of files) {
      const counts = new Map<string, number>()
      for (const test of testsIn(tasks)) {
        const name = `${relative(process.cwd(), filepath)}#${nameOf(test)}`
        const count = (counts.get(name) ?? 0) + 1
        counts.set(name, count)
        const id = count === 1 ? name : `${name} (${count})`
        this.#ids.set(test, id)
        if (this.#only?.has(id) === false) test.mode = 'skip'
      }
    }
  }

  onBeforeRunTask(test: Test): void {
    if (this.#hasFailed) test.mode = 'skip'
    if (test.mode === 'skip') return
    this.#current = test
    // The id stays set after the test, so that Stryker attributes background work to the test that started it.
    instrumentation.currentTestId = this.#ids.get(test)
  }

  onAfterRunTask(test: Test): void {
    if (test.result?.state === 'fail') this.#hasFailed = true
  }

  /** Runs all tests, or only those with the ids in `only`. */
  async run(only?: readonly string[]): Promise<TestResult[]> {
    this.#hasFailed = false
    this.#only = only && new Set(only)
    this.#ids.clear()
    const filter = only && new Set(only.map(id => id.slice(0, id.indexOf('#'))))
    const results: TestResult[] = []
    for (const path of testFiles()) {
      if (this.#hasFailed) break
      if (filter?.has(path) !== false) results.push(...(await this.#runFile(path)))
    }
    if (results.length === 0) throw new Error('no test was run: a mutant would seem to survive')
    return results
  }

  /** Loads the product and the test files. The product's top-level code runs once, that of test files in each run. */
  async load(): Promise<void> {
    instrumentation.currentTestId = undefined
    for (const path of testFiles()) await collectTests([resolve(path)], this)
  }

  async #runFile(path: string): Promise<TestResult[]> {
    instrumentation.currentTestId = `${path}#`
    const [file] = await startTests([resolve(path)], this)
    if (file === undefined) throw new Error(`${path} was not run`)
    const results = testsIn(file.tasks).flatMap(test => this.#resultOf(test, path))
    const error = file.result?.errors?.[0]
    if (error === undefined || this.#hasFailed) return results
    this.#hasFailed = true
    const whole = { id: `${path}#`, name: path, fileName: resolve(path), timeSpentMs: 0 }
    return [...results, { ...whole, status: failed, failureMessage: error.message }]
  }

  #resultOf(test: Test, path: string): TestResult[] {
    const { result, mode } = test
    if (result === undefined || mode === 'skip') return []
    const id = this.#ids.get(test) ?? test.name
    const base = { id, name: id, fileName: resolve(path), timeSpentMs: result.duration ?? 0 }
    if (result.state !== 'fail') return [{ ...base, status: passed }]
    return [{ ...base, status: failed, failureMessage: result.errors?.[0]?.message ?? 'failed' }]
  }
}

/**
 * Attributes the mutants that a test file hits while it loads to each of its tests. Only mutants that run while the
 * product loads remain static.
 */
function coverageOf({ static: loading, perTest }: Coverage, ids: readonly string[]): Coverage {
  const remaining = { ...loading }
  const found: Coverage['perTest'] = Object.fromEntries(ids.map(id => [id, { ...perTest[id] }]))
  for (const [key, hits] of Object.entries(perTest).filter(([key]) => key.endsWith('#')))
    for (const [mutant, count] of Object.entries(hits)) {
      remaining[mutant] = (remaining[mutant] ?? 0) - count
      for (const id of ids) if (id.startsWith(key)) found[id] = { ...found[id], [mutant]: count }
    }
  return { static: Object.fromEntries(Object.entries(remaining).filter(([, count]) => count > 0)), perTest: found }
}

export class WarmRunner {
  readonly #files = new Files()

  capabilities() {
    return { reloadEnvironment: false }
  }

  init(): void {
    replaceFastCheck()
    setWorkerState()
  }

  async dryRun() {
    instrumentation.activeMutant = undefined
    await this.#files.load()
    const tests = await this.#files.run()
    const ids = tests.map(({ id }) => id)
    return { status: 'complete', tests, mutantCoverage: coverageOf(instrumentation.mutantCoverage, ids) }
  }

  async mutantRun({ testFilter, hitLimit, activeMutant, mutantActivation }: MutantRun) {
    const hitCount = hitLimit === undefined ? undefined : 0
    Object.assign(instrumentation, { hitLimit, hitCount, activeMutant: activeMutant.id })
    const tests = await this.#files.run(mutantActivation === 'static' ? undefined : testFilter)
    instrumentation.activeMutant = undefined
    const isEndless = hitLimit !== undefined && (instrumentation.hitCount ?? 0) > hitLimit
    if (isEndless) return { status: 'timeout' }
    const killer = tests.find(({ status }) => status === failed)
    const nrOfTests = tests.length
    if (killer === undefined) return { status: 'survived', nrOfTests }
    return { status: 'killed', killedBy: [killer.id], failureMessage: killer.failureMessage, nrOfTests }
  }
}
