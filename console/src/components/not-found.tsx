import { Link } from '@tanstack/react-router'
import { texts } from '../texts.ts'
import { buttonClass } from './button.tsx'
import { PageTitle } from './state.tsx'

export function NotFound() {
  return (
    <div className="page empty">
      <PageTitle>{texts.errors.notFound}</PageTitle>
      <p>{texts.errors.notFoundWhat}</p>
      <Link to="/" className={buttonClass('primary')}>
        {texts.errors.home}
      </Link>
    </div>
  )
}
