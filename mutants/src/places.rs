//! Finds the places of the requested mutants in a file.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::{Genre, Mutant};

/// A place to rewrite, by its bytes in the source.
#[derive(Debug)]
pub(crate) struct Place {
    /// The replaced code; empty where code is only inserted.
    pub(crate) at: Range<usize>,
    pub(crate) what: What,
    pub(crate) alternatives: Vec<Mutant>,
}

#[derive(Debug)]
pub(crate) enum What {
    /// An early return at the head of a body.
    Body,
    Binary {
        left: Range<usize>,
        operator: Range<usize>,
        right: Range<usize>,
    },
    Unary {
        operand: Range<usize>,
    },
    /// A condition after a pattern.
    Arm,
    Guard,
    /// A field of a struct expression with a base.
    Field {
        name: String,
        value: Range<usize>,
        base: Range<usize>,
        path: Range<usize>,
        base_is_place: bool,
    },
    /// The word `const`, to be removed.
    Const,
}

impl Place {
    /// The number of its first mutant.
    pub(crate) fn number(&self) -> u32 {
        self.alternatives.first().map_or(0, |mutant| mutant.number)
    }

    pub(crate) fn mutants(&self) -> impl Iterator<Item = &Mutant> {
        self.alternatives.iter()
    }
}

/// The places of `mutants` in a source, and each `const` to be removed, in no order.
pub(crate) fn find(source: &str, mutants: &[Mutant], constant: &BTreeSet<String>) -> syn::Result<Vec<Place>> {
    let file = syn::parse_file(source)?;
    let mut wanted: HashMap<_, Vec<Mutant>> = HashMap::new();
    for mutant in mutants {
        wanted.entry((mutant.genre, mutant.line, mutant.column)).or_default().push(mutant.clone());
    }
    let mut finder = Finder { wanted, constant, in_constant: false, found: Vec::new() };
    finder.visit_file(&file);
    Ok(finder.found)
}

struct Finder<'a> {
    wanted: HashMap<(Genre, usize, usize), Vec<Mutant>>,
    constant: &'a BTreeSet<String>,
    /// Inside an expression that the compiler evaluates: no mutant can be selected there.
    in_constant: bool,
    found: Vec<Place>,
}

impl Finder<'_> {
    /// Notes a place if it has mutants: those of this kind that begin where it begins.
    fn place(&mut self, genre: Genre, begin: Span, at: Range<usize>, what: What) {
        if self.in_constant {
            return;
        }
        let start = begin.start();
        if let Some(alternatives) = self.wanted.remove(&(genre, start.line, start.column + 1)) {
            self.found.push(Place { at, what, alternatives });
        }
    }

    fn constant(&mut self, constant: bool, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.in_constant, constant);
        visit(self);
        self.in_constant = before;
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block, visit: impl FnOnce(&mut Self)) {
        let kept = self.constant.contains(&signature.ident.to_string());
        let before = self.found.len();
        self.constant(signature.constness.is_some() && kept, |finder| {
            if let Some(first) = block.stmts.first() {
                let at = bytes(first.span()).start;
                finder.place(Genre::FnValue, first.span(), at..at, What::Body);
            }
            visit(finder);
        });
        if let Some(word) = &signature.constness
            && self.found.len() > before
        {
            self.found.push(Place { at: bytes(word.span()), what: What::Const, alternatives: Vec::new() });
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.sig, &item.block, |finder| visit::visit_item_fn(finder, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.function(&item.sig, &item.block, |finder| visit::visit_impl_item_fn(finder, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        match &item.default {
            Some(block) => self.function(&item.sig, block, |finder| visit::visit_trait_item_fn(finder, item)),
            None => visit::visit_trait_item_fn(self, item),
        }
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.constant(true, |finder| visit::visit_item_const(finder, item));
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.constant(true, |finder| visit::visit_item_static(finder, item));
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.constant(true, |finder| visit::visit_impl_item_const(finder, item));
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.constant(true, |finder| visit::visit_trait_item_const(finder, item));
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.constant(true, |finder| visit::visit_variant(finder, variant));
    }

    fn visit_expr_const(&mut self, block: &'ast syn::ExprConst) {
        self.constant(true, |finder| visit::visit_expr_const(finder, block));
    }

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
        self.constant(true, |finder| finder.visit_expr(&repeat.len));
    }

    fn visit_type(&mut self, _: &'ast syn::Type) {}

    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}

    fn visit_pat(&mut self, _: &'ast syn::Pat) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        if !binds(&binary.left) && !binds(&binary.right) {
            let (left, right) = (bytes(binary.left.span()), bytes(binary.right.span()));
            let at = left.start..right.end;
            let operator = bytes(binary.op.span());
            self.place(Genre::BinaryOperator, binary.op.span(), at, What::Binary { left, operator, right });
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        let operand = bytes(unary.expr.span());
        let at = bytes(unary.op.span()).start..operand.end;
        self.place(Genre::UnaryOperator, unary.op.span(), at, What::Unary { operand });
        visit::visit_expr_unary(self, unary);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        let end = bytes(arm.pat.span()).end;
        self.place(Genre::MatchArm, arm.span(), end..end, What::Arm);
        if let Some((_, guard)) = &arm.guard
            && !binds(guard)
        {
            self.place(Genre::MatchArmGuard, guard.span(), bytes(guard.span()), What::Guard);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_struct(&mut self, expression: &'ast syn::ExprStruct) {
        if let Some(base) = &expression.rest {
            for field in &expression.fields {
                if let syn::Member::Named(name) = &field.member {
                    let what = What::Field {
                        name: name.to_string(),
                        value: bytes(field.expr.span()),
                        base: bytes(base.span()),
                        path: bytes(expression.path.span()),
                        base_is_place: !matches!(**base, syn::Expr::Call(_) | syn::Expr::MethodCall(_)),
                    };
                    self.place(Genre::StructField, field.span(), bytes(field.span()), what);
                }
            }
        }
        visit::visit_expr_struct(self, expression);
    }
}

/// Whether an operand is part of a `let` chain. Such an operand cannot be nested in another expression.
fn binds(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => binds(&binary.left) || binds(&binary.right),
        _ => false,
    }
}

fn bytes(span: Span) -> Range<usize> {
    span.byte_range()
}
