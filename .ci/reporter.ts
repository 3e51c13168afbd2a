/** Fails the run if a skipped test is not listed in docs/skipped-tests.md, as CI does. */
import type { Reporter, TestModule, Vitest } from 'vitest/node'
import { listedSkips } from './listed-skips.ts'

export class UnlistedSkips implements Reporter {
  #isFiltered = false

  onInit(vitest: Vitest): void {
    this.#isFiltered = vitest.config.testNamePattern !== undefined
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    // A test that a name pattern excludes is also reported as skipped.
    if (this.#isFiltered) return
    const names = modules.flatMap(module =>
      [...module.children.allTests('skipped')].map(test => test.fullName.replaceAll(' > ', ' ')),
    )
    for (const name of names.filter(name => !listedSkips.has(name))) {
      console.error(`skipped, and not listed in docs/skipped-tests.md: ${name}`)
      process.exitCode = 1
    }
  }
}
