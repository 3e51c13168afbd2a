/** Shows an error in place of a page that failed. The rest of the console keeps working. */
import { Component, type ReactNode } from 'react'
import { texts } from '../texts.ts'
import { Button } from './button.tsx'

export function Crash({ error, reset }: { error: unknown; reset: () => void }) {
  return (
    <div className="page stack" role="alert">
      <h1>{texts.errors.crashed}</h1>
      <p>{texts.errors.crashedWhat}</p>
      <pre className="wrap">{error instanceof Error ? error.message : String(error)}</pre>
      <div>
        <Button onClick={reset}>{texts.errors.reload}</Button>
      </div>
    </div>
  )
}

export class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: undefined }

  static getDerivedStateFromError(error: unknown) {
    return { error }
  }

  override render() {
    const { error } = this.state
    return error === undefined ? (
      this.props.children
    ) : (
      <Crash error={error} reset={() => this.setState({ error: undefined })} />
    )
  }
}
